//! The command line of this process as evidence, with secrets removed.

/// Options whose value is removed: a token, or the path of a token file.
const SECRET_OPTIONS: [&str; 2] = ["--token", "--token-file"];

/// Returns the command line: the program's file name and its arguments, without secrets.
pub fn redacted_command_line() -> String {
    let mut words = std::env::args_os().map(|it| it.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    redact_secrets(std::iter::once(name).chain(words))
}

/// Formats a command line and replaces secrets with `***`.
fn redact_secrets(words: impl Iterator<Item = String>) -> String {
    let mut shown = Vec::new();
    let mut hide = false;
    for word in words {
        let name = word.split('=').next().unwrap_or_default();
        if std::mem::take(&mut hide) {
            shown.push("***".to_owned());
        } else if SECRET_OPTIONS.contains(&word.as_str()) {
            hide = true;
            shown.push(word);
        } else if SECRET_OPTIONS.contains(&name) {
            shown.push(format!("{name}=***"));
        } else {
            shown.push(quote_for_shell(&word));
        }
    }
    shown.join(" ")
}

/// Quotes an argument for a shell.
pub fn quote_for_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_keeps_its_secrets() {
        let shown = |line: &str| redact_secrets(line.split(' ').map(str::to_owned));
        let expected = "longhaul record far --token *** -P 4 --token=***";
        assert_eq!(shown("longhaul record far --token abc -P 4 --token=abc"), expected);
        let odd = ["longhaul", "a b", "it's", ""].map(str::to_owned);
        assert_eq!(redact_secrets(odd.into_iter()), "longhaul 'a b' 'it'\\''s' ''");
    }
}
