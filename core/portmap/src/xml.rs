//! A scanner for the XML of gateways: tags and texts in order. It resolves only XML's own five entities, opens nothing, keeps no stack, and allocates
//! only to unescape a text.

use std::borrow::Cow;

/// A piece of a document. Names have no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// The start of an element.
    Open(&'a str),
    /// The end of an element; an empty element has both.
    Close(&'a str),
    /// Text between tags, as it is written; see [`unescape`].
    Text(&'a str),
}

/// Returns the tokens of a document; they end where it is no longer XML.
pub fn tokens(document: &str) -> Tokens<'_> {
    Tokens { rest: document, empty: None }
}

/// The iterator of [`tokens`].
#[derive(Debug)]
pub struct Tokens<'a> {
    rest: &'a str,
    /// The name of an empty element, whose end comes next.
    empty: Option<&'a str>,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if let Some(name) = self.empty.take() {
            return Some(Token::Close(name));
        }
        while !self.rest.is_empty() {
            if !self.rest.starts_with('<') {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                return Some(Token::Text(self.take(end, 0)));
            }
            if let Some(text) = self.rest.strip_prefix("<![CDATA[") {
                self.rest = text;
                let end = self.rest.find("]]>").unwrap_or(self.rest.len());
                return Some(Token::Text(self.take(end, 3)));
            }
            if self.rest.starts_with("<!--") {
                self.skip_behind("-->");
            } else if self.rest.starts_with("<?") {
                self.skip_behind("?>");
            } else if self.rest.starts_with("<!") {
                // A document type could define entities; they are never resolved.
                self.skip_behind(">");
            } else {
                return self.tag();
            }
        }
        None
    }
}

impl<'a> Tokens<'a> {
    /// Returns the next `length` bytes; what follows them begins `gap` bytes later.
    fn take(&mut self, length: usize, gap: usize) -> &'a str {
        let taken = &self.rest[..length];
        self.rest = self.rest.get(length + gap..).unwrap_or_default();
        taken
    }

    fn skip_behind(&mut self, mark: &str) {
        let end = self.rest.find(mark).unwrap_or(self.rest.len());
        self.take(end, mark.len());
    }

    fn tag(&mut self) -> Option<Token<'a>> {
        let Some(length) = tag_length(self.rest) else {
            self.rest = "";
            return None;
        };
        let inside = &self.take(length, 1)[1..];
        if let Some(name) = inside.strip_prefix('/') {
            return Some(Token::Close(local(name)));
        }
        let name = local(inside.strip_suffix('/').unwrap_or(inside));
        self.empty = inside.ends_with('/').then_some(name);
        Some(Token::Open(name))
    }
}

/// Returns the position of the `>` that ends the tag at the start of `text`; a `>` inside quotes belongs to a value.
fn tag_length(text: &str) -> Option<usize> {
    let mut quote = None;
    for (place, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(place),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Returns the name at the start of a tag, without attributes and prefix.
fn local(inside: &str) -> &str {
    let name = inside.split_ascii_whitespace().next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or(name)
}

/// Returns a text with XML's own entities resolved and all others unchanged.
pub fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    // The ampersand comes last, so that its result is not resolved again.
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Cow::Owned(entities.iter().fold(text.to_owned(), |text, (name, sign)| text.replace(name, sign)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_gateways_write() {
        let document = "<?xml version=\"1.0\"?><!DOCTYPE x><s:a b='>' xmlns=\"u\">\n<!-- <no> --><c/><d>t&amp;u<![CDATA[<v>]]></d></s:a>";
        let expected = [
            Token::Open("a"),
            Token::Text("\n"),
            Token::Open("c"),
            Token::Close("c"),
            Token::Open("d"),
            Token::Text("t&amp;u"),
            Token::Text("<v>"),
            Token::Close("d"),
            Token::Close("a"),
        ];
        assert_eq!(tokens(document).collect::<Vec<_>>(), expected);
        assert_eq!(unescape("a&amp;lt;&lt;&unknown;"), "a&lt;<&unknown;");
    }

    #[test]
    fn fault_d15_truncated_documents_and_entity_bombs_end_quietly() {
        for text in ["<", "<a", "<a b=\">", "<!--", "<![CDATA[x", "<?", "<!DOCTYPE", "</", "<>", "</>"] {
            assert!(tokens(text).count() <= 2, "{text}");
        }
        let bomb = "<!DOCTYPE l [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><l>&b;</l>";
        assert!(tokens(bomb).all(|token| !matches!(token, Token::Text(text) if text.contains("aaaaa"))));
        // Ten thousand levels of nesting need no recursion and no stack.
        assert_eq!(tokens(&"<a>".repeat(10_000)).count(), 10_000);
    }

    proptest! {
        #[test]
        fn every_text_has_an_end(text in "[<>/!?a\\[\\]\"' &;:é-]{0,200}") {
            // A tag has at least two characters and gives at most two tokens; a text has at least one.
            prop_assert!(tokens(&text).count() <= text.len());
        }
    }
}
