//! Carries MEP frames over QUIC with mutual TLS; certificates.
