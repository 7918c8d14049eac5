package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"
)

// localTimeout bounds a request to the running gateway.
const localTimeout = 10 * time.Second

// runningGateway finds the gateway of a state directory.
func runningGateway(state string) (lockHolder, error) {
	var p problems
	path := resolveState(state, &p)
	if err := p.err(); err != nil {
		return lockHolder{}, err
	}
	holder, err := stateDir(path).holder()
	if errors.Is(err, errNotRunning) || err == nil && holder.URL == "" {
		return lockHolder{}, fmt.Errorf("no gateway runs on the state directory %s: start one, or name its directory with --state", path)
	}
	return holder, err
}

// tokenLink asks the running gateway for a login ticket of the first token and prints the link.
func tokenLink(ctx context.Context, state string, stdout io.Writer) error {
	holder, err := runningGateway(state)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(holder.TokenFile)
	if err != nil {
		return fmt.Errorf("the gateway's first token: %w", err)
	}
	var ticket struct {
		Ticket string `json:"ticket"`
	}
	header := http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}, "Content-Type": {"application/json"}}
	if err := holder.ask(ctx, http.MethodPost, "/api/v1/tickets", header, `{"for":"login"}`, &ticket); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, holder.URL+"/login?ticket="+ticket.Ticket)
	return err
}

// healthcheck succeeds if the gateway is ready for connections.
func healthcheck(ctx context.Context, state string) error {
	holder, err := runningGateway(state)
	if err != nil {
		return err
	}
	return holder.ask(ctx, http.MethodGet, "/readyz", nil, "", nil)
}

// ask sends a request to the gateway and decodes the answer into v, unless v is nil.
func (h lockHolder) ask(ctx context.Context, method, path string, header http.Header, body string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, h.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	client, err := h.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("the gateway does not answer: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("the gateway does not answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway answers %s: %s", response.Status, bytes.TrimSpace(text))
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(text, v)
}

// client reaches the gateway without a proxy, and with TLS believes exactly the certificate that the gateway was given,
// whatever names it is for: the address is this machine's own.
func (h lockHolder) client() (*http.Client, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, h.Address)
	}}
	if h.TLSCert != "" {
		leaf, err := leafOf(h.TLSCert)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, // names and issuers, not the certificate, which is compared below
			VerifyConnection: func(state tls.ConnectionState) error {
				if len(state.PeerCertificates) == 0 || !state.PeerCertificates[0].Equal(leaf) {
					return errors.New("the certificate is not that of --tls-cert")
				}
				return nil
			},
		}
	}
	return &http.Client{Transport: transport}, nil
}

// localAddress is an address at which this machine reaches a listener: its own, or loopback if it is all of them.
func localAddress(listener net.Addr) string {
	address, err := netip.ParseAddrPort(listener.String())
	if err != nil || !address.Addr().IsUnspecified() {
		return listener.String()
	}
	loopback := netip.IPv6Loopback()
	if address.Addr().Is4() {
		loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(loopback, address.Port()).String()
}

// leafOf is the first certificate of a PEM file.
func leafOf(path string) (*x509.Certificate, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("%s: no certificate", path)
}
