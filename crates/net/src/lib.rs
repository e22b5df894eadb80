//! Worker loop, listeners, streams
