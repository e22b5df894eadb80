//! The log: standard error, as text or JSON, at a level that may change while it is written.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, reload, util::SubscriberInitExt,
};
use trunkline_admin::bundle::LogLines;
use trunkline_config::{LogFormat, LogLevel, Settings};

/// The running log.
pub struct Log {
    filter: reload::Handle<Targets, Registry>,
    /// The last lines, for bug reports: none below `info`, since those may have statements.
    lines: LogLines,
}

impl Log {
    /// Begins to log as the settings say. Called once in a process.
    pub fn start(settings: &Settings) -> Self {
        let (filter, handle) = reload::Layer::new(targets(settings.log_level));
        let lines = fmt::layer().with_writer(io::stderr);
        let lines: Box<dyn Layer<_> + Send + Sync> = match settings.log_format {
            LogFormat::Text => {
                lines.with_ansi(io::stderr().is_terminal()).with_target(false).boxed()
            }
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        let kept = LogLines::default();
        let shared = kept.clone();
        let keeping = fmt::layer()
            .with_writer(move || shared.clone())
            .with_ansi(false)
            .with_target(false)
            .with_filter(LevelFilter::INFO);
        tracing_subscriber::registry().with(filter).with(lines).with(keeping).init();
        Self { filter: handle, lines: kept }
    }

    /// The last lines.
    pub fn lines(&self) -> LogLines {
        self.lines.clone()
    }

    /// Logs from now on at this level.
    pub fn set_level(&self, level: LogLevel) {
        // It fails only when the log is gone, and then nobody reads a complaint either.
        drop(self.filter.reload(targets(level)));
    }
}

/// Trunkline's own lines at the level, those of libraries only from warnings up.
fn targets(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("trunkline", level)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn libraries_are_quiet() {
        let debug = targets(LogLevel::Debug);
        assert!(debug.would_enable("trunkline_proxy::driver", &Level::DEBUG));
        assert!(debug.would_enable("trunkline", &Level::DEBUG));
        assert!(!debug.would_enable("hyper::proto", &Level::INFO));
        assert!(debug.would_enable("hyper::proto", &Level::WARN));
        let error = targets(LogLevel::Error);
        assert!(!error.would_enable("hyper::proto", &Level::WARN));
    }
}
