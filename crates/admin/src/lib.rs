//! Control plane: metrics, health and status over HTTP
