//! Titles: what some programs write over their arguments to say what a process does, such as `postgres: checkpointer`.

use crate::model::printable;

/// The beginnings of the names of programs whose processes have titles.
const TITLED: [&str; 4] = ["postgres", "nginx", "sshd", "php-fpm"];

/// Maximum number of words of a title: the name of the program, and two that describe the process. Later words can belong to one
/// client.
const MOST_WORDS: usize = 3;

/// Whether processes of this name write titles.
pub(super) fn sets_title(comm: &str) -> bool {
    TITLED.iter().any(|program| comm.starts_with(program))
}

/// The title in a list of arguments, up to its first digit or bracket, and without anything that is an argument or a path; `None`
/// without one. A title begins with the name of the program and a colon. The name of a cluster of PostgreSQL, which ends with another
/// colon, is left out.
pub(super) fn title(arguments: &[u8]) -> Option<String> {
    let first = arguments.split(|&byte| byte == 0).next()?;
    let text = printable(first);
    let in_cluster = |(program, rest): (&str, &str)| {
        let (_, title) = rest.split_once(": ").filter(|(cluster, _)| !cluster.contains(' '))?;
        Some(format!("{program}: {title}").into())
    };
    let text = text.split_once(": ").and_then(in_cluster).unwrap_or(text);
    let end = text.find(|c: char| c.is_ascii_digit() || "[](){}<>".contains(c)).unwrap_or(text.len());
    let is_argument = |word: &&str| word.starts_with(['-', '/']);
    let words = text[..end].split(' ').take_while(|word| !word.is_empty() && !is_argument(word)).take(MOST_WORDS);
    let title = words.collect::<Vec<_>>().join(" ");
    let title = title.trim_end_matches(|c: char| !c.is_alphanumeric());
    title.split_once(": ").filter(|(program, _)| sets_title(program)).map(|_| title.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_ends_before_what_differs_between_clients_and_has_no_argument() {
        for (arguments, expected) in [
            ("postgres: checkpointer \0\0\0", Some("postgres: checkpointer")),
            ("postgres: logical replication launcher", Some("postgres: logical replication")),
            ("postgres: alice shop 10.0.0.1(5123) SELECT", Some("postgres: alice shop")),
            ("postgres: walsender alice [local] streaming", Some("postgres: walsender alice")),
            ("postgres: 15/main: checkpointer ", Some("postgres: checkpointer")),
            ("postgres: db1: alice shop [local] idle", Some("postgres: alice shop")),
            ("nginx: worker process", Some("nginx: worker process")),
            ("nginx: master process /usr/sbin/nginx -g secret", Some("nginx: master process")),
            ("sshd: alice@pts/0", Some("sshd: alice@pts")),
            ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", None),
            ("php-fpm: pool www", Some("php-fpm: pool www")),
            ("/usr/lib/postgresql/15/bin/postgres\0-D\0/secret: x\0", None),
            ("postgres\0-c\0secret: x\0", None),
            ("nginx\0", None),
            ("other: secret", None),
            ("", None),
        ] {
            assert_eq!(title(arguments.as_bytes()).as_deref(), expected, "{arguments}");
        }
        assert!(["postgres", "php-fpm8.2", "sshd-session"].iter().all(|comm| sets_title(comm)) && !sets_title("make"));
    }
}
