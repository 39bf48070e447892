//! Passwords in the URL of a database, for output.

/// Text shown in place of a password.
const MASK: &str = "***";

/// Returns the URL with its passwords masked: the one before the host, and the parameter `password`.
pub(in crate::cli) fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::from(MASK) };
    // A password that contains `/`, `?` or `@` unescaped is malformed, but must not be shown either: everything up to the last `@` counts.
    let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
    let user = user.map(|user| match user.split_once(':') {
        Some((name, _)) => format!("{name}:{MASK}@"),
        None => format!("{user}@"),
    });
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let parameter = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if !name.eq_ignore_ascii_case("password") => String::from(pair),
        Some((name, _)) => format!("{name}={MASK}"),
        None => String::from(MASK),
    };
    let query = query.map(|query| format!("?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&")));
    format!("{scheme}://{}{place}{}", user.unwrap_or_default(), query.unwrap_or_default())
}

/// Returns true if the URL contains a password.
pub(in crate::cli) fn has_password(url: &str) -> bool {
    masked(url) != url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown_wherever_it_is() {
        for (url, shown) in [
            ("postgres://taut@db/taut", "postgres://taut@db/taut"),
            ("postgres://taut:secret@db/taut?sslmode=require", "postgres://taut:***@db/taut?sslmode=require"),
            ("postgres://taut:se@cr/e?t@db/taut", "postgres://taut:***@db/taut"),
            ("postgres:///taut?host=/run&password=secret", "postgres:///taut?host=/run&password=***"),
            ("postgres:///taut?PASSWORD=secret&user=a", "postgres:///taut?PASSWORD=***&user=a"),
            ("secret", "***"),
        ] {
            assert_eq!(masked(url), shown);
            assert_eq!(has_password(url), shown.contains("***"), "{url}");
        }
    }
}
