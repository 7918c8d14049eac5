package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Local is the principal of the first token and of mode none.
const Local = "local"

// Via is how an Identity was proved.
type Via string

const (
	ViaCookie      Via = "cookie"
	ViaBearer      Via = "bearer"
	ViaSubprotocol Via = "subprotocol"
	ViaTicket      Via = "ticket"
	ViaProxy       Via = "proxy"
	ViaNone        Via = "none"
)

// Identity is who a request comes from.
type Identity struct {
	Principal string
	Via       Via
	// Token names the token that the identity rests on, "" if there is none. It is not secret.
	Token string
	// Login names the login of a browser that the identity goes back to, by cookie or by a ticket got with one; "" if none.
	// Logging out ends what has it.
	Login string
	// Expires is when the cookie ends; zero: never.
	Expires time.Time
}

// Ambient reports whether a browser sends the proof by itself, whichever site the request comes from. Such a request
// must show an allowed Origin (rule T2).
func (id Identity) Ambient() bool { return id.Via == ViaCookie || id.Via == ViaProxy }

// maxName bounds principals, in bytes.
const maxName = 128

// checkPrincipal bounds what a proxy may call a user: the name is a key, a label of logs and a folder.
func checkPrincipal(name string) error {
	switch {
	case name == "":
		return errors.New("the user name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the user name is longer than %d bytes", maxName)
	case !utf8.ValidString(name):
		return errors.New("the user name is not UTF-8")
	case name == "." || name == ".." || strings.ContainsAny(name, `/\`):
		return errors.New("the user name is . or .. or has a slash or backslash")
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("the user name has control characters or white space around it")
	}
	return nil
}

// checkTokenName bounds the names of tokens, which become principals, further: what a shell passes without quotes.
func checkTokenName(name string) error {
	if name == Local {
		return fmt.Errorf("name: %q is the user of the first token; choose another", Local)
	}
	ok := name != "" && len(name) <= 64
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = ok && (letter || i > 0 && strings.IndexByte("._@+-", c) >= 0)
	}
	if !ok {
		return fmt.Errorf("name: must be 1 to 64 letters, digits or ._@+- and begin with a letter or digit (got %q)", name)
	}
	return nil
}
