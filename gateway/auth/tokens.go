package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrNoToken means that no token has the name.
var ErrNoToken = errors.New("auth: no such token")

// NamedToken is what is known of a token beside its digest.
type NamedToken struct {
	Name    string
	Created time.Time
}

const tokensFile = "tokens.json"

// maxTokens bounds tokens.json.
const maxTokens = 1000

type tokenList struct {
	V      int           `json:"v"`
	Tokens []storedToken `json:"tokens"`
}

type storedToken struct {
	Name    string    `json:"name"`
	SHA256  string    `json:"sha256"` // hex, of the token's text
	Created time.Time `json:"created"`
}

// AddToken makes a token for the principal name and returns its text, which is stored nowhere. A running gateway takes it
// from then on.
func AddToken(stateDir, name string) (token string, err error) {
	if err := checkTokenName(name); err != nil {
		return "", err
	}
	token = rand.Text()
	err = editTokens(stateDir, func(l *tokenList) error {
		for _, t := range l.Tokens {
			if t.Name == name {
				return fmt.Errorf("name: a token %q exists; remove it first, or choose another name", name)
			}
		}
		if len(l.Tokens) >= maxTokens {
			return fmt.Errorf("name: there are %d tokens, which is the limit; remove one first", len(l.Tokens))
		}
		sum := sha256.Sum256([]byte(token))
		l.Tokens = append(l.Tokens, storedToken{Name: name, SHA256: hex.EncodeToString(sum[:]), Created: time.Now().UTC().Truncate(time.Second)})
		return nil
	})
	return token, err
}

// RemoveToken ends the token called name; so end the cookies that were made from it, and a running gateway closes the
// connections that rest on it. The error is ErrNoToken if there is none.
func RemoveToken(stateDir, name string) error {
	return editTokens(stateDir, func(l *tokenList) error {
		for i, t := range l.Tokens {
			if t.Name == name {
				l.Tokens = append(l.Tokens[:i], l.Tokens[i+1:]...)
				return nil
			}
		}
		return fmt.Errorf("%w: %q", ErrNoToken, name)
	})
}

// ListTokens lists the named tokens, oldest first.
func ListTokens(stateDir string) ([]NamedToken, error) {
	l, _, err := readTokens(filepath.Join(stateDir, tokensFile))
	if err != nil {
		return nil, err
	}
	out := make([]NamedToken, 0, len(l.Tokens))
	for _, t := range l.Tokens {
		out = append(out, NamedToken{Name: t.Name, Created: t.Created})
	}
	return out, nil
}

// editTokens changes tokens.json under a lock, so that two commands at once lose nothing.
func editTokens(stateDir string, edit func(*tokenList) error) (err error) {
	path := filepath.Join(stateDir, tokensFile)
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("%s: %w", lock.Name(), err)
	}
	l, _, err := readTokens(path)
	if err != nil {
		return err
	}
	if err := edit(&l); err != nil {
		return err
	}
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(b, '\n'))
}

// readTokens reads tokens.json strictly; a missing file is an empty list.
func readTokens(path string) (tokenList, fs.FileInfo, error) {
	l := tokenList{V: 1}
	b, info, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil, nil
	}
	if err != nil {
		return l, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, nil, fmt.Errorf("%s: not a token list: %w", path, err)
	}
	if l.V != 1 {
		return l, nil, fmt.Errorf("%s: written by another version of acpgate (v: got %d, want 1)", path, l.V)
	}
	for _, t := range l.Tokens {
		if sum, err := hex.DecodeString(t.SHA256); err != nil || len(sum) != sha256.Size {
			return l, nil, fmt.Errorf("%s: token %q has no SHA-256 digest", path, t.Name)
		}
		if err := checkTokenName(t.Name); err != nil {
			return l, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return l, info, nil
}
