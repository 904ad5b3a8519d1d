//! The options by which well-known programs move more bytes per round trip.
//!
//! Source: the programs' own documentation, named in each row of `program-options.tsv`.

/// The rows: program, option, text, source; separated by tabs. The most effective option comes first.
const TABLE: &str = include_str!("program-options.tsv");

/// An option of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramOption {
    pub program: &'static str,
    /// As it is added to the command line.
    pub command: &'static str,
    pub text: &'static str,
    pub source: &'static str,
}

/// Returns the options of a program.
pub fn find_options(program: &str) -> Vec<ProgramOption> {
    list_options().filter(|option| option.program == program).collect()
}

/// Returns all options of the table.
pub fn list_options() -> impl Iterator<Item = ProgramOption> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| {
        let mut cells = line.split('\t');
        Some(ProgramOption {
            program: cells.next()?,
            command: cells.next()?,
            text: cells.next()?,
            source: cells.next()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_complete() {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(list_options().count(), rows);
        for option in list_options() {
            assert!(option.source.starts_with("https://"), "{option:?}");
            assert!(!option.command.is_empty() && option.text.len() > 20, "{option:?}");
        }
    }
}
