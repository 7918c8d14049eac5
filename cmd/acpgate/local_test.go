package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLocalAddress(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:80":     "127.0.0.1:80",
		"192.0.2.1:80":     "192.0.2.1:80",
		"0.0.0.0:80":       "127.0.0.1:80",
		"[::]:80":          "[::1]:80",
		"[2001:db8::1]:80": "[2001:db8::1]:80",
	} {
		addr, err := net.ResolveTCPAddr("tcp", in)
		if err != nil {
			t.Fatal(err)
		}
		if got := localAddress(addr); got != want {
			t.Errorf("localAddress(%s) = %s, want %s", in, got, want)
		}
	}
}

// writeCertificate writes a self-signed certificate and its key and returns the certificate.
func writeCertificate(t *testing.T, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "gate.example.org"}, DNSNames: []string{"gate.example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// TestT1_HTTPS serves with a certificate for another name than localhost: the link is made over it, without trusting any
// other certificate.
func TestT1_HTTPS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key)
	g := newGateway(t, "--tls-cert", cert, "--tls-key", key, "--base-path", "/gate/")
	if !strings.HasPrefix(g.url, "https://127.0.0.1:") || !strings.HasSuffix(g.url, "/gate") {
		t.Errorf("listening on %s", g.url)
	}
	acpgate := func(args ...string) (string, error) {
		cmd := exec.Command("acpgate", args...)
		cmd.Env = g.cmd.Env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := acpgate("token", "link"); err != nil || !strings.HasPrefix(out, g.url+"/login?ticket=") {
		t.Errorf("token link: %q, %v", out, err)
	}
	if out, err := acpgate("healthcheck"); err != nil {
		t.Errorf("healthcheck: %q, %v", out, err)
	}
	// Whoever else answers at the address is not shown the token.
	writeCertificate(t, cert, filepath.Join(dir, "other-key.pem"))
	if out, err := acpgate("token", "link"); err == nil || !strings.Contains(out, "the certificate is not that of --tls-cert") {
		t.Errorf("token link with another certificate: %q, %v", out, err)
	}
}

func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := writeCertificate(t, cert, key)
	files := newCertificateFiles(cert, key, slog.New(slog.DiscardHandler))
	serves := func(want *x509.Certificate) {
		t.Helper()
		files.checked = time.Time{}
		got, err := files.get(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		if leaf, err := x509.ParseCertificate(got.Certificate[0]); err != nil || !leaf.Equal(want) {
			t.Errorf("serves another certificate, %v", err)
		}
	}
	serves(first)

	second := writeCertificate(t, cert, key)
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	serves(second)

	// In the middle of a renewal the old one stays, and the new one comes once it is whole.
	if err := os.WriteFile(cert, []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	serves(second)
	third := writeCertificate(t, cert, key)
	serves(third)

	missing := newCertificateFiles(filepath.Join(dir, "missing.pem"), key, slog.New(slog.DiscardHandler))
	if _, err := missing.get(&tls.ClientHelloInfo{}); err == nil {
		t.Error("a missing certificate is no error")
	}
}
