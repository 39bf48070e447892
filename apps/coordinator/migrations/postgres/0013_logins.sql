-- The login of a person at devices. Without an index, whether two people have the same one takes the square of their number.
CREATE INDEX people_any_login ON people ((CASE WHEN issuer = 'local' THEN subject ELSE login END));
