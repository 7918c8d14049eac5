package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"
)

// credential is one token, without its text.
type credential struct {
	principal string
	sum       [sha256.Size]byte
	id        string // Identity.Token
}

// credentialStore holds the tokens of both files and notices when a file changes.
type credentialStore struct {
	tokenPath string
	listPath  string
	log       *slog.Logger

	mu                  sync.Mutex
	tokenSeen, listSeen fs.FileInfo // as loaded; nil: missing
	first               []credential
	named               []credential
}

// minToken is the length of the shortest acceptable token, in bytes. Ours have 26.
const minToken = 16

func openCredentials(c Config) (*credentialStore, error) {
	s := &credentialStore{tokenPath: c.TokenFile, listPath: filepath.Join(c.StateDir, tokensFile), log: c.Logger}
	if s.tokenPath == "" {
		s.tokenPath = filepath.Join(c.StateDir, "token")
	}
	if _, err := createOnce(s.tokenPath, func() []byte { return []byte(rand.Text() + "\n") }); err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	if info, err := os.Stat(s.tokenPath); err == nil && info.Mode().Perm()&0o077 != 0 {
		s.log.Warn("token file can be read by others", "path", s.tokenPath, "mode", info.Mode().Perm().String())
	}
	if err := errors.Join(s.loadToken(), s.loadList()); err != nil {
		return nil, err
	}
	return s, nil
}

func newCredential(principal string, sum [sha256.Size]byte) credential {
	// Not the digest itself: the id is in cookies and in memory dumps of clients.
	id := sha256.Sum256(append([]byte("acpgate token id\x00"), sum[:]...))
	return credential{principal: principal, sum: sum, id: hex.EncodeToString(id[:8])}
}

func (s *credentialStore) loadToken() error {
	b, info, err := readFile(s.tokenPath)
	if errors.Is(err, fs.ErrNotExist) {
		s.first, s.tokenSeen = nil, nil
		return nil
	}
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(b))
	if len(text) < minToken || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("%s: a token has at least %d characters and no white space (got %d characters)", s.tokenPath, minToken, len(text))
	}
	s.first, s.tokenSeen = []credential{newCredential(Local, sha256.Sum256([]byte(text)))}, info
	return nil
}

func (s *credentialStore) loadList() error {
	l, info, err := readTokens(s.listPath)
	if err != nil {
		return err
	}
	named := make([]credential, 0, len(l.Tokens))
	for _, t := range l.Tokens {
		sum, err := hex.DecodeString(t.SHA256)
		if err != nil {
			return err
		}
		named = append(named, newCredential(t.Name, [sha256.Size]byte(sum)))
	}
	s.named, s.listSeen = named, info
	return nil
}

// refresh loads what has changed on disk. A file that cannot be read keeps its tokens: a half-written file must not lock
// everybody out; a file that is gone has none. Under mu.
func (s *credentialStore) refresh() {
	if changed(s.tokenPath, s.tokenSeen) {
		if err := s.loadToken(); err != nil {
			s.log.Error("token file not loaded, the old token still counts", "err", err)
		}
	}
	if changed(s.listPath, s.listSeen) {
		if err := s.loadList(); err != nil {
			s.log.Error("token list not loaded, the old one still counts", "err", err)
		}
	}
}

func changed(path string, seen fs.FileInfo) bool {
	now, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) || seen != nil
	}
	return seen == nil || !os.SameFile(now, seen) || now.Size() != seen.Size() || !now.ModTime().Equal(seen.ModTime())
}

// byToken finds the credential of a token's text. Every digest is compared, each in constant time.
func (s *credentialStore) byToken(text string) (credential, bool) {
	sum := sha256.Sum256([]byte(text))
	return s.find(func(c *credential) bool { return subtle.ConstantTimeCompare(c.sum[:], sum[:]) == 1 })
}

func (s *credentialStore) byID(id string) (credential, bool) {
	return s.find(func(c *credential) bool { return c.id == id })
}

func (s *credentialStore) byPrincipal(name string) (credential, bool) {
	return s.find(func(c *credential) bool { return c.principal == name })
}

func (s *credentialStore) find(is func(*credential) bool) (found credential, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	for _, list := range [2][]credential{s.first, s.named} {
		for i := range list {
			if is(&list[i]) {
				found, ok = list[i], true
			}
		}
	}
	return found, ok
}
