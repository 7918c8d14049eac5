package main

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateCheck is how often the certificate file is looked at, when it is used.
const certificateCheck = 10 * time.Second

// certificateFiles is a certificate that is read again when its file changes, so that a renewal needs no restart.
type certificateFiles struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	changed time.Time // modification time of cert when it was loaded
	checked time.Time
}

func newCertificateFiles(cert, key string, log *slog.Logger) *certificateFiles {
	return &certificateFiles{cert: cert, key: key, log: log}
}

// get is for tls.Config.GetCertificate. While the files are unreadable or do not match, as in the middle of a renewal, the
// certificate before them stays in use.
func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded != nil && time.Since(f.checked) < certificateCheck {
		return f.loaded, nil
	}
	f.checked = time.Now()
	info, err := os.Stat(f.cert)
	if err == nil && f.loaded != nil && info.ModTime().Equal(f.changed) {
		return f.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.cert, f.key); err == nil {
			f.loaded, f.changed = &pair, info.ModTime()
			return f.loaded, nil
		}
	}
	if f.loaded == nil {
		return nil, err
	}
	f.log.Warn("certificate not renewed", "err", err)
	return f.loaded, nil
}
