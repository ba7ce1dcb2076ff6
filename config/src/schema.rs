//! Every table and key of the file format, with the defaults, in the file's own notation: the one list that reading,
//! the suggestions for typos and the test of the example go by.

/// A table of the format.
pub(crate) struct Schema {
    /// Its name as it stands in the file; empty for the top.
    pub(crate) name: &'static str,
    /// Its keys.
    pub(crate) keys: &'static [Key],
}

/// A key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) presence: Presence,
}

/// What holds while a key is not given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// This value, as TOML.
    Default(&'static str),
    /// Nothing: an error.
    Required,
    /// Nothing: the setting is absent.
    Optional,
}

const fn default(name: &'static str, value: &'static str) -> Key {
    Key { name, presence: Presence::Default(value) }
}

const fn required(name: &'static str) -> Key {
    Key { name, presence: Presence::Required }
}

const fn optional(name: &'static str) -> Key {
    Key { name, presence: Presence::Optional }
}

impl Schema {
    pub(crate) fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|k| k.name == name)
    }

    pub(crate) fn key_names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|k| k.name).collect()
    }
}

pub(crate) static TOP: Schema = Schema {
    name: "",
    keys: &[
        required("version"),
        optional("node"),
        optional("include"),
        optional("group"),
        optional("dns"),
        optional("admin"),
        optional("mep"),
        optional("probe"),
        optional("ldns"),
        optional("proximity"),
        optional("locations"),
        optional("sites"),
        optional("nodes"),
        optional("zones"),
        optional("monitors"),
        optional("sources"),
        optional("services"),
        optional("lb_vservers"),
        optional("vservers"),
        optional("domains"),
    ],
};

pub(crate) static GROUP: Schema =
    Schema { name: "group", keys: &[default("name", r#""gslb""#), default("rtt_tolerance", r#""5ms""#)] };

pub(crate) static DNS: Schema = Schema {
    name: "dns",
    keys: &[
        default("listen", r#"["0.0.0.0:53", "[::]:53"]"#),
        default("udp_threads", "0"),
        default("udp_payload", "1232"),
        default("udp_receive_buffer", "1048576"),
        default("tcp_connections", "512"),
        default("tcp_connections_per_address", "128"),
        default("tcp_idle_timeout", r#""10s""#),
        optional("version"),
        optional("identity"),
        optional("tls"),
    ],
};

pub(crate) static DNS_TLS: Schema = Schema {
    name: "dns.tls",
    keys: &[default("listen", r#"["0.0.0.0:853", "[::]:853"]"#), required("certificate"), required("key")],
};

pub(crate) static ADMIN: Schema = Schema { name: "admin", keys: &[default("listen", r#""127.0.0.1:8053""#)] };

pub(crate) static MEP: Schema = Schema {
    name: "mep",
    keys: &[
        default("listen", r#""0.0.0.0:4353""#),
        default("ca", r#""pki/ca.crt""#),
        default("certificate", r#""pki/{site}-{node}.crt""#),
        default("key", r#""pki/{site}-{node}.key""#),
        default("keepalive", r#""10s""#),
        default("metrics_interval", r#""1s""#),
        default("rtt_interval", r#""5s""#),
        default("down_delay", r#""15s""#),
        default("max_age", r#""60s""#),
    ],
};

pub(crate) static PROBE: Schema = Schema {
    name: "probe",
    keys: &[
        default("order", r#"["ping", "dns-udp", "dns-tcp"]"#),
        default("interval", r#""5s""#),
        default("timeout", r#""2s""#),
        default("retry_order", r#""60s""#),
        default("failed_rounds", "3"),
        default("port", "53"),
        optional("source_v4"),
        optional("source_v6"),
        default("per_second", "500"),
        default("new_per_second", "100"),
        default("per_prefix", "2"),
    ],
};

pub(crate) static LDNS: Schema = Schema {
    name: "ldns",
    keys: &[
        default("mask_v4", "32"),
        default("mask_v6", "128"),
        default("idle_timeout", r#""180s""#),
        default("cap", "1000000"),
        default("private", "true"),
        default("exclude", "[]"),
        default("include", "[]"),
    ],
};

pub(crate) static PROXIMITY: Schema = Schema { name: "proximity", keys: &[default("databases", "[]")] };

pub(crate) static LOCATION: Schema = Schema {
    name: "locations",
    keys: &[required("prefixes"), optional("location"), optional("coordinates"), optional("asns")],
};

pub(crate) static SITE: Schema = Schema {
    name: "sites",
    keys: &[
        required("name"),
        default("trigger_monitor", r#""always""#),
        optional("location"),
        optional("coordinates"),
        optional("asns"),
    ],
};

pub(crate) static NODE: Schema = Schema {
    name: "nodes",
    keys: &[
        required("name"),
        required("mep"),
        default("transport", r#""auto""#),
        optional("addresses"),
        optional("dns_listen"),
        optional("dns_tls_listen"),
        optional("mep_listen"),
        optional("admin_listen"),
        optional("probe_source_v4"),
        optional("probe_source_v6"),
        optional("certificate"),
        optional("key"),
    ],
};

pub(crate) static ZONE: Schema = Schema {
    name: "zones",
    keys: &[required("name"), default("ttl", r#""1h""#), optional("file"), optional("records")],
};

pub(crate) static MONITOR: Schema = Schema {
    name: "monitors",
    keys: &[
        required("name"),
        required("kind"),
        default("interval", r#""5s""#),
        default("timeout", r#""2s""#),
        default("rise", "1"),
        default("fall", "3"),
        optional("down_time"),
        default("reverse", "false"),
        default("response_time", "true"),
        optional("port"),
        optional("source"),
        // of http and its kin
        default("path", r#""/""#),
        default("host", r#""""#),
        default("expect", "[]"),
        default("method", r#""GET""#),
        default("headers", "[]"),
        default("body", r#""""#),
        // of other kinds: absent, since the one sample of a monitor is none of them
        optional("server_name"),
        optional("verify"),
        optional("ca"),
        optional("send"),
        optional("receive"),
        optional("receive_regex"),
        optional("query"),
        optional("query_type"),
        optional("recurse"),
        optional("rcode"),
        optional("addresses"),
        optional("user"),
        optional("password"),
        optional("password_file"),
        optional("command"),
        optional("run_as"),
        optional("perf_label"),
        optional("load_label"),
    ],
};

pub(crate) static WATCH: Schema =
    Schema { name: "services.monitors", keys: &[required("monitor"), default("weight", "1")] };

pub(crate) static SERVICE: Schema = Schema {
    name: "services",
    keys: &[
        required("name"),
        required("site"),
        required("address"),
        required("port"),
        optional("monitors"),
        optional("monitor_threshold"),
        optional("remote_monitors"),
        optional("remote_monitor_threshold"),
        optional("lb_vserver"),
        optional("source"),
        optional("source_name"),
        optional("source_metrics"),
        optional("max_clients"),
        optional("max_bandwidth"),
        default("enabled", "true"),
    ],
};

pub(crate) static SOURCE: Schema = Schema {
    name: "sources",
    keys: &[
        required("name"),
        required("kind"),
        optional("url"),
        optional("socket"),
        optional("site"),
        optional("source_name"),
        optional("source_metrics"),
        default("interval", r#""1s""#),
        default("timeout", r#""500ms""#),
        default("misses", "3"),
    ],
};

pub(crate) static SOURCE_METRICS: Schema = Schema {
    name: "services.source_metrics",
    keys: &[
        optional("up"),
        optional("active"),
        optional("connections"),
        optional("bytes"),
        optional("requests"),
        optional("response_time"),
        optional("response_time_sum"),
        optional("response_time_count"),
        optional("response_time_unit"),
        optional("load"),
    ],
};

pub(crate) static LB_VSERVER: Schema = Schema {
    name: "lb_vservers",
    keys: &[
        required("name"),
        required("site"),
        default("kind", r#""http""#),
        required("listen"),
        default("method", r#""least_response_time_monitors""#),
        default("startup_rr_factor", "100"),
        default("slow_start", r#""0s""#),
        default("persistence", r#""none""#),
        default("forwarded", r#""x_forwarded""#),
        // of other kinds and persistences than the sample's
        optional("persistence_timeout"),
        optional("persistence_mask_v4"),
        optional("persistence_mask_v6"),
        optional("persistence_cap"),
        optional("cookie"),
        optional("proxy_protocol"),
        optional("certificates"),
        optional("source"),
        default("connect_timeout", r#""5s""#),
        default("first_byte_timeout", r#""50s""#),
        default("idle_timeout", r#""50s""#),
        default("request_header_timeout", r#""10s""#),
        default("max_connections", "20000"),
        default("max_idle", "256"),
        default("retries", "3"),
        required("services"),
    ],
};

pub(crate) static LB_CERTIFICATE: Schema =
    Schema { name: "lb_vservers.certificates", keys: &[required("certificate"), required("key")] };

pub(crate) static LB_MEMBER: Schema = Schema {
    name: "lb_vservers.services",
    keys: &[required("service"), default("weight", "1"), optional("max_clients"), optional("max_bandwidth")],
};

pub(crate) static VSERVER: Schema = Schema {
    name: "vservers",
    keys: &[
        required("name"),
        default("method", r#""rtt""#),
        default("backup_method", r#""round_robin""#),
        default("selection_tolerance", r#""0ms""#),
        default("answer", r#""service""#),
        default("local_method", r#""least_response_time_monitors""#),
        default("all_down", r#""all""#),
        optional("backup_ip"),
        default("drop_ldns_requests", "false"),
        default("addresses", "1"),
        default("order_threshold", "1"),
        optional("backup_vserver"),
        default("failback", r#""auto""#),
        default("failback_delay", r#""0s""#),
        optional("spillover_connections"),
        optional("spillover_bandwidth"),
        optional("spillover_health"),
        default("spillover_return", "90"),
        default("persistence", r#""none""#),
        optional("persistence_id"),
        optional("persistence_timeout"),
        optional("persistence_mask_v4"),
        optional("persistence_mask_v6"),
        required("services"),
    ],
};

pub(crate) static BINDING: Schema = Schema {
    name: "vservers.services",
    keys: &[required("service"), default("weight", "1"), default("order", "1")],
};

pub(crate) static DOMAIN: Schema = Schema {
    name: "domains",
    keys: &[required("name"), required("vserver"), default("ttl", r#""5s""#), default("ecs", "false")],
};

/// Every table, for finding where a misplaced key belongs.
pub(crate) static ALL: [&Schema; 24] = [
    &TOP,
    &GROUP,
    &DNS,
    &DNS_TLS,
    &ADMIN,
    &MEP,
    &PROBE,
    &LDNS,
    &PROXIMITY,
    &LOCATION,
    &SITE,
    &NODE,
    &ZONE,
    &MONITOR,
    &SERVICE,
    &WATCH,
    &VSERVER,
    &BINDING,
    &DOMAIN,
    &SOURCE,
    &SOURCE_METRICS,
    &LB_VSERVER,
    &LB_CERTIFICATE,
    &LB_MEMBER,
];
