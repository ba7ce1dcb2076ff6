//! Real servers, as their distribution ships them, in a folder of their own.

use super::wire::{SERVER, Wire};
use super::{certificates::Ca, ms};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server process, ended when this is dropped.
pub(crate) struct Daemon {
    child: Child,
    _folder: TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a program is; says so if it is nowhere.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/usr/bin", "/usr/lib/nagios/plugins"].map(Path::new);
    let found = places.iter().map(|place| place.join(program)).find(|path| path.exists());
    if found.is_none() {
        super::skipped(&format!("no `{program}` here"));
    }
    found
}

impl Wire {
    /// Starts a program at the server's end, in a folder with these files (folders end in '/'), of whose text `{dir}` is the folder's path. Waits
    /// until the port is open.
    pub(crate) fn serve(
        &self,
        program: &str,
        args: &[&str],
        files: &[(&str, &str)],
        port: u16,
    ) -> Option<Daemon> {
        let program = found(program)?;
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_str().unwrap().to_owned();
        // Servers that give up root must find their way.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in files {
            match name.strip_suffix('/') {
                Some(name) => std::fs::create_dir(folder.path().join(name)).unwrap(),
                None => std::fs::write(folder.path().join(name), text.replace("{dir}", &dir)).unwrap(),
            }
        }
        let args: Vec<String> = args.iter().map(|arg| arg.replace("{dir}", &dir)).collect();
        let mut command = Command::new(program);
        command.args(args).current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = self.inside("s", move || command.spawn().unwrap()).join().unwrap();
        let daemon = Daemon { child, _folder: folder };
        self.inside("s", move || opens(port)).join().unwrap();
        Some(daemon)
    }

    pub(crate) fn nginx(&self, ca: &Ca) -> Option<Daemon> {
        let (certificate, key) = ca.issue(&["www.test"], -1, 1);
        let (expired, its_key) = ca.issue(&["www.test"], -30, -3);
        let conf = "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log; worker_processes 1;\n\
            events { worker_connections 256; }\n\
            http {\n access_log off; client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir}; uwsgi_temp_path {dir}; scgi_temp_path {dir};\n\
            ssl_certificate {dir}/www.crt; ssl_certificate_key {dir}/www.key; ssl_protocols TLSv1.2 TLSv1.3;\n\
            server { listen 80; listen 443 ssl; server_name www.test; location / { return 200 \"status=up\\n\"; } location /down { return 503; } }\n\
            server { listen 444 ssl; ssl_certificate {dir}/old.crt; ssl_certificate_key {dir}/old.key; return 204; }\n }\n";
        let files = [
            ("nginx.conf", conf),
            ("www.crt", &certificate.pem()),
            ("www.key", &key.serialize_pem()),
            ("old.crt", &expired.pem()),
            ("old.key", &its_key.serialize_pem()),
        ];
        self.serve("nginx", &["-c", "{dir}/nginx.conf", "-p", "{dir}"], &files, 443)
    }

    /// TLS 1.2 and nothing newer.
    pub(crate) fn openssl(&self, ca: &Ca) -> Option<Daemon> {
        let (certificate, key) = ca.issue(&["www.test"], -1, 1);
        let args = [
            "s_server",
            "-accept",
            "4433",
            "-cert",
            "{dir}/www.crt",
            "-key",
            "{dir}/www.key",
            "-tls1_2",
            "-www",
            "-quiet",
        ];
        self.serve(
            "openssl",
            &args,
            &[("www.crt", &certificate.pem()), ("www.key", &key.serialize_pem())],
            4433,
        )
    }

    /// `www` has an address, `many` more than fit a datagram.
    pub(crate) fn knot(&self) -> Option<Daemon> {
        let conf = format!(
            "server:\n  rundir: {{dir}}\n  listen: {SERVER}@53\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
             database:\n  storage: {{dir}}\nlog:\n  - target: {{dir}}/log\n    any: error\n\
             zone:\n  - domain: test\n    file: {{dir}}/test.zone\n    zonefile-load: whole\n    journal-content: none\n"
        );
        let many: String = (1..=60).map(|n| format!("many A 192.0.2.{n}\n")).collect();
        let zone = format!(
            "$ORIGIN test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\nns A {SERVER}\nwww A 192.0.2.80\n{many}"
        );
        self.serve("knotd", &["-c", "{dir}/knot.conf"], &[("knot.conf", &conf), ("test.zone", &zone)], 53)
    }

    /// Anonymous logins.
    pub(crate) fn vsftpd(&self) -> Option<Daemon> {
        let conf = "listen=YES\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nanon_root={dir}/pub\nftp_username=daemon\n\
            secure_chroot_dir={dir}/pub\nseccomp_sandbox=NO\nlisten_port=21\n\
            ftpd_banner=Welcome\nxferlog_enable=NO\n";
        self.serve("vsftpd", &["{dir}/vsftpd.conf"], &[("pub/", ""), ("vsftpd.conf", conf)], 21)
    }

    /// Logins of "monitor" with the password "secret".
    pub(crate) fn pyftpdlib(&self) -> Option<Daemon> {
        let has =
            Command::new(found("python3")?).args(["-c", "import pyftpdlib"]).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            super::skipped("no pyftpdlib here");
            return None;
        }
        let args = ["-m", "pyftpdlib", "-p", "2121", "-d", "{dir}", "-u", "monitor", "-P", "secret"];
        self.serve("python3", &args, &[], 2121)
    }
}

/// Waits until somebody listens.
fn opens(port: u16) {
    let (at, until) =
        (SocketAddr::new(SERVER.parse().unwrap(), port), Instant::now() + Duration::from_secs(20));
    while TcpStream::connect_timeout(&at, ms(200)).is_err() {
        assert!(Instant::now() < until, "nobody listens at {at}");
        std::thread::sleep(ms(20));
    }
}

/// A DNS query for a name of the zone, A, with this id.
pub(crate) fn query(id: u16, label: &str) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8]);
    bytes.extend(label.as_bytes());
    bytes.extend([4, b't', b'e', b's', b't', 0, 0, 1, 0, 1]);
    bytes
}

/// Waits until a DNS server answers.
pub(crate) fn answers(at: SocketAddr) {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
    socket.set_read_timeout(Some(ms(200))).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        socket.send_to(&query(1, "www"), at).unwrap();
        let mut buf = [0; 512];
        if matches!(socket.recv(&mut buf), Ok(40..)) {
            return;
        }
        assert!(Instant::now() < until, "no answer from {at}");
    }
}
