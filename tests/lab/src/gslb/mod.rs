//! The product in the laboratory.
