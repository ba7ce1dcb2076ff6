//! The admin API: JSON over HTTP, Prometheus metrics.
