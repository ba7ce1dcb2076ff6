//! Choosing a service within a site. Pure.
