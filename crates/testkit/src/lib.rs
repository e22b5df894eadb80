//! Starts real servers in temporary folders on free ports
