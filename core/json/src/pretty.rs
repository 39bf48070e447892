//! JSON for people.

/// Returns JSON without white space, as [`crate::to_string`] writes it, with a line for each field and element.
pub fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(2 * json.len());
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    let mut rest = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(character) = rest.next() {
        if in_string {
            in_string = is_escaped || character != '"';
            is_escaped = character == '\\' && !is_escaped;
            out.push(character);
            continue;
        }
        match character {
            '{' | '[' => {
                out.push(character);
                match rest.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(character);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = character == '"';
                out.push(character);
            }
        }
    }
    out
}
