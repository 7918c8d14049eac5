package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cookies signs and reads cookies: v1.<token id>.<login id>.<end, Unix seconds>.<HMAC-SHA256 of what is before>.
type cookies struct {
	key  []byte
	name string
	path string
	ttl  time.Duration
}

const cookieKeySize = 32

func openCookies(c Config) (*cookies, error) {
	path := filepath.Join(c.StateDir, "cookie.key")
	key, err := createOnce(path, func() []byte {
		b := make([]byte, cookieKeySize)
		rand.Read(b) // never fails
		return b
	})
	if err != nil {
		return nil, fmt.Errorf("cookie key: %w", err)
	}
	if len(key) != cookieKeySize {
		return nil, fmt.Errorf("%s: must have %d bytes (got %d); remove it to have a new one made", path, cookieKeySize, len(key))
	}
	// Browsers do not tell ports apart: two gateways on one host need two names, or each login would end the other.
	sum := sha256.Sum256(append([]byte("acpgate cookie name\x00"), key...))
	return &cookies{key: key, name: "acpgate_" + hex.EncodeToString(sum[:4]), path: c.CookiePath, ttl: c.CookieTTL}, nil
}

func (k *cookies) sign(body string) string {
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(body))
	return body + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// read returns what a cookie of r says that we have signed and that has not ended; the principal is not in it. Every
// cookie of our name is tried: a browser may hold one for a parent path too.
func (k *cookies) read(r *http.Request) (id Identity, ok bool) {
	for _, c := range r.CookiesNamed(k.name) {
		if id, ok = k.verify(c.Value); ok {
			return id, true
		}
	}
	return Identity{}, false
}

func (k *cookies) verify(value string) (id Identity, ok bool) {
	dot := strings.LastIndexByte(value, '.')
	if dot < 0 || !hmac.Equal([]byte(k.sign(value[:dot])), []byte(value)) {
		return Identity{}, false
	}
	parts := strings.Split(value[:dot], ".")
	if len(parts) != 4 || parts[0] != "v1" {
		return Identity{}, false
	}
	sec, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return Identity{}, false
	}
	id = Identity{Via: ViaCookie, Token: parts[1], Login: parts[2], Expires: time.Unix(sec, 0)}
	return id, time.Now().Before(id.Expires)
}

// set gives the browser a cookie for a token and a login, and returns its end. SameSite=Strict: no other site's page can make the browser send it, not
// even by a link; the page itself is served without login and asks for its data afterwards, as the same site, so links to
// it work all the same.
func (k *cookies) set(w http.ResponseWriter, id Identity, secure bool) time.Time {
	end := time.Now().Add(k.ttl).Truncate(time.Second)
	http.SetCookie(w, &http.Cookie{
		Name: k.name, Value: k.sign("v1." + id.Token + "." + id.Login + "." + strconv.FormatInt(end.Unix(), 10)),
		Path: k.path, MaxAge: int(k.ttl / time.Second), HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	})
	return end
}

func (k *cookies) clear(w http.ResponseWriter, secure bool) {
	http.SetCookie(w, &http.Cookie{Name: k.name, Path: k.path, MaxAge: -1, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode})
}
