package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// runPump serves the baseline: one agent process for each connection and bytes in between, without looking at them. One
// line is one frame. The naive pump writes each frame by itself, which is what the WebSocket library does; the corked one
// gathers the frames of all lines that are at hand and writes them at once.
func runPump(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("bench pump", flag.ContinueOnError)
	fs.SetOutput(stderr)
	corked := fs.Bool("corked", false, "write all lines at hand at once")
	agents := fs.String("agents", "", "the agents' command lines by name, as `JSON`")
	if err := fs.Parse(args); err != nil {
		return err
	}
	p := &pump{corked: *corked}
	if err := json.Unmarshal([]byte(*agents), &p.agents); err != nil {
		return fmt.Errorf("--agents: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Fprintf(stderr, "listening on http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type pump struct {
	agents map[string][]string
	corked bool
}

func (p *pump) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	argv := p.agents[r.URL.Query().Get("agent")]
	if len(argv) == 0 {
		http.NotFound(w, r)
		return
	}
	hijack := &hijacker{ResponseWriter: w, corked: p.corked}
	ws, err := websocket.Accept(hijack, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // answered by the library
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return
	}
	if cmd.Start() != nil {
		return
	}
	var toClient sync.WaitGroup
	toClient.Go(func() { lines(stdout, ws, hijack.buffered) })
	for {
		_, frame, err := ws.Read(context.Background())
		if err != nil {
			break
		}
		if _, err := stdin.Write(append(frame, '\n')); err != nil {
			break
		}
	}
	_ = cmd.Process.Kill()
	toClient.Wait()
	_ = cmd.Wait()
}

// lines writes one frame for each line. With buffered, what is at hand leaves together.
func lines(stdout io.Reader, ws *websocket.Conn, buffered *buffered) {
	r := bufio.NewReaderSize(stdout, blockBytes)
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if err != nil {
			return
		}
		line := part
		if len(long) > 0 {
			long = append(long, part...)
			line = long
		}
		if ws.Write(context.Background(), websocket.MessageText, line[:len(line)-1]) != nil {
			return
		}
		long = long[:0]
		if buffered == nil {
			continue
		}
		if ahead, _ := r.Peek(r.Buffered()); bytes.IndexByte(ahead, '\n') < 0 && buffered.flush() != nil {
			return
		}
	}
}

// hijacker gives the WebSocket library a buffered connection if the pump is corked.
type hijacker struct {
	http.ResponseWriter
	corked   bool
	buffered *buffered
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil || !h.corked {
		return nc, rw, err
	}
	h.buffered = &buffered{Conn: nc, w: bufio.NewWriterSize(nc, blockBytes)}
	rw.Writer.Reset(h.buffered)
	return h.buffered, rw, nil
}

// buffered is a connection whose writes wait for flush.
type buffered struct {
	net.Conn
	mu sync.Mutex
	w  *bufio.Writer
}

func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.w.Write(p)
}

func (b *buffered) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.w.Flush()
}
