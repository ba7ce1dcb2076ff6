//! Sends probes and checks, stamps the replies, reports. No policy.
