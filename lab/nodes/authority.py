"""An authority that issues certificates for servers in the lab, by OpenSSL."""

KIND = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """An authority in `host`. `certificate` is the file that clients trust."""

    def __init__(self, host, name="authority"):
        self.host = host
        self.key, self.certificate = host.state / f"{name}.key", host.state / f"{name}.pem"
        self._issued = 0
        host.run("openssl", "req", "-x509", *KIND, "-days", 30, "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def issue(self, certificate, key, *names, days=30):
        """Writes a certificate for these names and addresses, and its key, to two files. Each has another serial number."""
        self._issued += 1
        request, extensions = certificate.with_suffix(".request"), certificate.with_suffix(".extensions")
        listed = ",".join(("DNS:" if name[-1].isalpha() else "IP:") + name for name in names)
        extensions.write_text(f"subjectAltName={listed}\nbasicConstraints=critical,CA:FALSE\n")
        self.host.run("openssl", "req", *KIND, "-subj", "/CN=taut", "-keyout", key, "-out", request)
        signed = ("-CA", self.certificate, "-CAkey", self.key, "-set_serial", self._issued, "-days", days)
        self.host.run("openssl", "x509", "-req", "-in", request, "-extfile", extensions, *signed, "-out", certificate)
        key.chmod(0o600)


def serial(host, address, port):
    """Returns the serial number of the certificate that a server shows."""
    shown = host.run("openssl", "s_client", "-connect", f"{address}:{port}", text="", check=False).stdout
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    pem = begin + shown.partition(begin)[2].partition(end)[0] + end
    return int(host.run("openssl", "x509", "-noout", "-serial", text=pem).stdout.strip().removeprefix("serial="), 16)
