//! `trunkline completions` and `trunkline man`: made from the one table of commands.

use std::{fmt::Write, fs, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Arg, Command, CommandFactory};

use crate::{
    cli::{Cli, CompletionsArgs, ManArgs, Shell},
    show,
};

/// Writes the completion script of a shell.
pub fn run_completions(args: &CompletionsArgs) -> Result<ExitCode> {
    let command = built();
    show(&match args.shell {
        Shell::Bash => bash(&command),
        Shell::Zsh => zsh(&command),
        Shell::Fish => fish(&command),
    });
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of the manual: all of them as text to standard output, or one file each.
pub fn run_man(args: &ManArgs) -> Result<ExitCode> {
    let command = built();
    let mut pages = vec![("trunkline".to_owned(), page(&command, "trunkline"))];
    for sub in subcommands(&command) {
        let name = format!("trunkline-{}", sub.get_name());
        let text = page(sub, &name);
        pages.push((name, text));
    }
    let Some(folder) = &args.folder else {
        pages.iter().for_each(|(_, text)| show(text));
        return Ok(ExitCode::SUCCESS);
    };
    fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    for (name, text) in pages {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
}

/// What a command takes, as it is typed: `--json`, `-c`.
fn flags(command: &Command) -> Vec<String> {
    let mut flags = Vec::new();
    for argument in options(command) {
        flags.extend(argument.get_long().map(|long| format!("--{long}")));
        flags.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    flags
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| !argument.is_positional() && !argument.is_hide_set())
}

/// The values that an argument takes, if there are only some.
fn values(argument: &Arg) -> Vec<String> {
    let values = argument.get_possible_values();
    values.iter().map(|value| value.get_name().to_owned()).collect()
}

fn bash(command: &Command) -> String {
    let names: Vec<&str> = subcommands(command).map(Command::get_name).collect();
    let mut text = String::from(
        "_trunkline() {\n    local word=\"${COMP_WORDS[COMP_CWORD]}\" \
         before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n    case \"${COMP_WORDS[1]}:$before\" in\n",
    );
    for sub in subcommands(command) {
        for argument in sub.get_arguments().filter(|argument| !values(argument).is_empty()) {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let before = long.unwrap_or_else(|| sub.get_name().to_owned());
            let words = values(argument).join(" ");
            let name = sub.get_name();
            let _ = writeln!(
                text,
                "        {name}:{before}) COMPREPLY=($(compgen -W \"{words}\" -- \"$word\")); return;;"
            );
        }
    }
    text.push_str("    esac\n    case \"${COMP_WORDS[1]}\" in\n");
    for sub in subcommands(command) {
        let (name, words) = (sub.get_name(), flags(sub).join(" "));
        let _ = writeln!(
            text,
            "        {name}) [[ $COMP_CWORD -gt 1 && $word == -* ]] && \
             COMPREPLY=($(compgen -W \"{words}\" -- \"$word\")) && return;;"
        );
    }
    let _ = write!(
        text,
        "    esac\n    if [[ $COMP_CWORD -eq 1 ]]; then\n        \
         COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n    fi\n}}\n\
         complete -o default -F _trunkline trunkline\n",
        names.join(" ")
    );
    text
}

fn zsh(command: &Command) -> String {
    let mut text = String::from("#compdef trunkline\n\n_trunkline() {\n    local -a commands\n");
    text.push_str("    commands=(\n");
    for sub in subcommands(command) {
        let about = about(sub).replace('\'', "").replace(':', "\\:");
        let _ = writeln!(text, "        '{}:{about}'", sub.get_name());
    }
    text.push_str("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n");
    text.push_str("        return\n    fi\n    case $words[2] in\n");
    for sub in subcommands(command) {
        let _ = write!(text, "        {}) _arguments", sub.get_name());
        for argument in options(sub) {
            let help = help(argument).replace(['\'', '[', ']'], "").replace(':', "\\:");
            let takes = match argument.get_action().takes_values() {
                true if values(argument).is_empty() => ":value:_files".to_owned(),
                true => format!(":value:({})", values(argument).join(" ")),
                false => String::new(),
            };
            if let Some(long) = argument.get_long() {
                let _ = write!(text, " '--{long}[{help}]{takes}'");
            }
        }
        text.push_str(" '*:file:_files';;\n");
    }
    text.push_str("    esac\n}\n\n_trunkline \"$@\"\n");
    text
}

fn fish(command: &Command) -> String {
    let mut text = String::new();
    for sub in subcommands(command) {
        let (name, about) = (sub.get_name(), about(sub).replace('\'', "\\'"));
        let _ = writeln!(
            text,
            "complete -c trunkline -n __fish_use_subcommand -f -a {name} -d '{about}'"
        );
        for argument in options(sub) {
            let _ = write!(text, "complete -c trunkline -n '__fish_seen_subcommand_from {name}'");
            if let Some(long) = argument.get_long() {
                let _ = write!(text, " -l {long}");
            }
            if let Some(short) = argument.get_short() {
                let _ = write!(text, " -s {short}");
            }
            if argument.get_action().takes_values() {
                text.push_str(" -r");
            }
            if !values(argument).is_empty() {
                let _ = write!(text, " -f -a '{}'", values(argument).join(" "));
            }
            let _ = writeln!(text, " -d '{}'", help(argument).replace('\'', "\\'"));
        }
    }
    text
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn help(argument: &Arg) -> String {
    argument.get_help().map(ToString::to_string).unwrap_or_default()
}

/// A page for `man`.
fn page(command: &Command, name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        ".TH {} 1 \"\" \"Trunkline {version}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
        name.to_uppercase(),
        roff(name),
        roff(&about(command)),
    );
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = writeln!(text, ".SH SYNOPSIS\n.nf\n{}\n.fi", roff(usage));
    let arguments: Vec<&Arg> =
        command.get_arguments().filter(|argument| !argument.is_hide_set()).collect();
    if !arguments.is_empty() {
        text.push_str(".SH OPTIONS\n");
    }
    for argument in arguments {
        let mut shown: Vec<String> = Vec::new();
        shown.extend(argument.get_short().map(|short| format!("-{short}")));
        shown.extend(argument.get_long().map(|long| format!("--{long}")));
        let takes = argument.get_action().takes_values();
        let names = argument.get_value_names().unwrap_or_default();
        let names = names.iter().map(|name| format!(" {name}")).collect::<String>();
        let mut term = shown.join(", ");
        if takes {
            term.push_str(&names);
        }
        let mut help = help(argument);
        if !values(argument).is_empty() && takes {
            help.push_str(&format!(" ({})", values(argument).join(", ")));
        }
        let _ = writeln!(text, ".TP\n.B {}\n{}", roff(term.trim()), roff(&help));
    }
    let subs: Vec<&Command> = subcommands(command).collect();
    if !subs.is_empty() {
        text.push_str(".SH COMMANDS\n");
        for sub in subs {
            let name = roff(&format!("{name}-{}", sub.get_name()));
            let _ = writeln!(text, ".TP\n.BR {name} (1)\n{}", roff(&about(sub)));
        }
    }
    text
}

/// A text that `man` takes as it is.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_every_description() {
        let command = built();
        let names: Vec<&str> = subcommands(&command).map(Command::get_name).collect();
        assert!(names.len() > 12, "{names:?}");
        for made in [bash(&command), zsh(&command), fish(&command), page(&command, "trunkline")] {
            for name in &names {
                assert!(made.contains(name), "{name} in {made}");
            }
        }
        let serve = subcommands(&command).find(|sub| sub.get_name() == "serve").expect("serve");
        let made = page(serve, "trunkline-serve");
        assert!(made.contains(".B \\-c, \\-\\-config FILE\n"), "{made}");
    }
}
