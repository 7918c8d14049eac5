package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// RedisServer is a redis-server of a test, on a free port of 127.0.0.1, with its data in a directory of the test. It
// writes an append-only file as its documentation recommends (everysec).
type RedisServer struct {
	Addr string

	t     testing.TB
	args  []string
	stdin io.WriteCloser
	cmd   *exec.Cmd
	log   *buffer
}

// buffer is what a server wrote; it is read while the server may still write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Redis starts a redis-server, which the end of the test, or of its process, ends. args are further options, or first
// the name of a configuration file. A machine without redis-server fails the test.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not installed: apt-get install redis-server (deploy/check.sh does it)")
	}
	common := []string{"--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"}
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		common = append([]string{args[0]}, common...)
		args = args[1:]
	}
	r := &RedisServer{t: t, args: append(common, args...)}
	t.Cleanup(r.Kill)
	// Somebody else may take the port before redis-server does.
	for range 5 {
		r.Addr = freeAddr(t)
		if r.start() == nil {
			return r
		}
	}
	t.Fatalf("redis-server does not start:\n%s", r.log)
	return nil
}

// freeAddr returns an address that nobody listens on. The port beside it that nodes of a cluster use, 10,000 above, exists.
func freeAddr(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		addr := l.Addr().(*net.TCPAddr)
		must(t, l.Close())
		if addr.Port < 1<<16-10_000 {
			return addr.String()
		}
	}
}

// URL is where stores find the server.
func (r *RedisServer) URL() string { return "redis://" + r.Addr }

// Start starts a killed server again, on its port and its data.
func (r *RedisServer) Start() {
	r.t.Helper()
	if err := r.start(); err != nil {
		r.t.Fatalf("redis-server does not start again: %v\n%s", err, r.log)
	}
}

func (r *RedisServer) start() error {
	_, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return err
	}
	args := r.args
	options := []string{"--port", port}
	if !strings.HasPrefix(args[0], "--") {
		options, args = append([]string{args[0]}, options...), args[1:]
	}
	// The shell waits for the end of its stdin, which comes even when this process is killed, and then kills the server.
	const guard = `redis-server "$@" </dev/null & p=$!; read -r _; kill -9 $p; wait $p 2>/dev/null`
	r.cmd = exec.Command("sh", append([]string{"-c", guard, "sh"}, append(options, args...)...)...)
	r.log = &buffer{}
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := r.ping()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || strings.Contains(r.log.String(), "Address already in use") {
			r.Kill()
			return err
		}
	}
}

func (r *RedisServer) ping() error {
	c, err := net.DialTimeout("tcp", r.Addr, time.Second)
	if err != nil {
		return err
	}
	reply := make([]byte, 7)
	err = errors.Join(c.SetDeadline(time.Now().Add(time.Second)), write(c, "PING\r\n"))
	if err == nil {
		_, err = io.ReadFull(c, reply)
	}
	if text := string(reply); err == nil && text != "+PONG\r\n" && text != "-NOAUTH" {
		err = fmt.Errorf("answer %q", reply)
	}
	return errors.Join(err, c.Close())
}

func write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// Kill kills the server with SIGKILL and waits for its end.
func (r *RedisServer) Kill() {
	if r.cmd == nil {
		return
	}
	if err := r.stdin.Close(); err != nil {
		r.t.Errorf("killing redis-server: %v", err)
	}
	_ = r.cmd.Wait() // it says that the shell's child was killed, as it should be
	r.cmd = nil
}
