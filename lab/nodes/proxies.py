"""Real reverse proxies in front of a coordinator: nginx, HAProxy and Apache, configured as docs/reverse-proxy.md says, but without TLS; and nginx with the files of dist/nginx."""

from pathlib import Path

from ..hosts.programs import ROOT
from ..hosts.wait import wait_until

PORT = 80
MODULES = Path("/usr/lib/apache2/modules")

_NGINX_HEAD = """
daemon off;
master_process off;
worker_rlimit_nofile 8192;
pid {state}/nginx.pid;
error_log stderr;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {state}/body; proxy_temp_path {state}/proxy; fastcgi_temp_path {state}/f; uwsgi_temp_path {state}/u; scgi_temp_path {state}/s;
"""
_NGINX = (
    _NGINX_HEAD
    + """
    map $http_upgrade $connection_upgrade {{ default upgrade; "" ""; }}
    server {{
        listen {port};
        location / {{
            proxy_pass http://{target};
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            {header}
            proxy_read_timeout 120s;
            proxy_send_timeout 120s;
        }}
    }}
}}
"""
)
_USUAL = 'proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header Forwarded "";'
_STANDARD = 'proxy_set_header Forwarded "for=\\"$remote_addr\\""; proxy_set_header X-Forwarded-For "";'

_HAPROXY = """
global
    maxconn 4000
defaults
    mode {mode}
    timeout client 120s
    timeout connect 5s
    timeout server 120s
    timeout tunnel 120s
    timeout http-request 10s
frontend front
    bind :{port}
    {front}
    default_backend back
backend back
    server coordinator {target} {server}
"""

_APACHE = """
ServerRoot {state}
ServerName proxy
PidFile {state}/apache.pid
ErrorLog /dev/stderr
Listen {port}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule headers_module {modules}/mod_headers.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
LoadModule proxy_wstunnel_module {modules}/mod_proxy_wstunnel.so
ServerLimit 16
ThreadsPerChild 64
ThreadLimit 64
MaxRequestWorkers 1024
RequestHeader unset Forwarded
ProxyTimeout 120
ProxyPass "/control/v1" "http://{target}/control/v1" upgrade=websocket
ProxyPass "/relay/v1" "http://{target}/relay/v1" upgrade=websocket
ProxyPass "/" "http://{target}/"
"""

# Kind of proxy: its program, its configuration, its command line with the path of the file.
KINDS = {
    "nginx": ("nginx", _NGINX, {"header": _USUAL}, ("nginx", "-c")),
    "nginx-forwarded": ("nginx", _NGINX, {"header": _STANDARD}, ("nginx", "-c")),
    "haproxy": ("haproxy", _HAPROXY, {"mode": "tcp", "front": "", "server": "send-proxy-v2"}, ("haproxy", "-db", "-f")),
    "haproxy-header": (
        "haproxy",
        _HAPROXY,
        {"mode": "http", "front": "http-request del-header Forwarded\n    option forwardfor", "server": ""},
        ("haproxy", "-db", "-f"),
    ),
    "apache": ("apache2", _APACHE, {"modules": MODULES}, ("apache2", "-DFOREGROUND", "-f")),
}


class Proxy:
    """A reverse proxy of this kind on port 80 of `host`, in front of `target` (address:port)."""

    def __init__(self, host, kind, target):
        program, text, values, command = KINDS[kind]
        self.host = host
        self.process = started(host, program, text.format(state=host.state, port=PORT, target=target, **values), command)


def packaged(host, replaced):
    """Starts nginx on `host` with the files of dist/nginx, in which these texts are replaced by others."""
    text = "".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "dist/nginx").glob("*.conf")))
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, str(new))
    return started(host, "nginx", _NGINX_HEAD.format(state=host.state) + text + "}\n", KINDS["nginx"][3])


def started(host, program, text, command):
    """Starts a proxy with this configuration; returns its process once it listens."""
    file = host.state / f"{program}.conf"
    file.write_text(text, encoding="utf-8")
    process = host.start(*command, file, name=program)
    wait_until(lambda: f":{PORT} " in host.run("ss", "-Hltn").stdout, f"{program} to listen", details=process.tail)
    return process
