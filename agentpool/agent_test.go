package agentpool

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fakeAgent is an ACP agent whose behaviour the tests choose: by flags how it starts and ends, and by the text of each
// prompt what it writes. A prompt is a list of commands, one a line:
//
//	raw TEXT      a line as it is                  bytes TEXT    the same, one byte a write
//	chunk TEXT    an agent_message_chunk           update SESSION  an update of another session
//	stderr N      N bytes on stderr                fill N        a chunk of N bytes of text
//	burst N       N updates of 200 bytes, in blocks
//	blob N        N bytes without a line end       exit N        ends, with this status
//	kill          ends by SIGKILL                  deaf          reads no more input
//	echo          writes the next line that it reads as a chunk
//	open          does not answer this prompt
//	closeout      closes stdout
//
// and then it answers with end_turn.
func fakeAgent(args []string) int {
	var a agent
	fs := flag.NewFlagSet("agent", flag.ContinueOnError)
	fs.BoolVar(&a.ignoreEOF, "ignore-eof", false, "")
	ignoreTerm := fs.Bool("ignore-term", false, "")
	fs.StringVar(&a.preamble, "preamble", "", "lines before anything else")
	fs.StringVar(&a.initResult, "init", `{"protocolVersion":1,"agentCapabilities":{}}`, "")
	fs.DurationVar(&a.initDelay, "init-delay", 0, "")
	fs.StringVar(&a.beforeNew, "before-new", "", "updates of the new session before the answer")
	fs.BoolVar(&a.codexOrder, "codex-order", false, "responses as jsonrpc, result, id")
	spawn := fs.String("spawn", "", "a shell command that runs beside the agent")
	startFile := fs.String("starts", "", "a file that gets one line for every start")
	if err := fs.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if *ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	if *startFile != "" {
		f, err := os.OpenFile(*startFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 2
		}
		fmt.Fprintln(f, os.Getpid())
		f.Close()
	}
	if *spawn != "" {
		if err := exec.Command("sh", "-c", *spawn).Start(); err != nil {
			return 2
		}
	}
	return a.run()
}

type agent struct {
	ignoreEOF  bool
	preamble   string
	initResult string
	initDelay  time.Duration
	beforeNew  string
	codexOrder bool
	in         *bufio.Reader
	mu         sync.Mutex
	sessions   int
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string `json:"sessionId"`
		Prompt    []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	} `json:"params"`
}

func (a *agent) run() int {
	if a.preamble != "" {
		fmt.Println(a.preamble)
	}
	a.in = bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := a.in.ReadString('\n')
		if err != nil {
			for a.ignoreEOF {
				time.Sleep(time.Hour)
			}
			return 0
		}
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			fmt.Fprintln(os.Stderr, "bad line:", err)
			continue
		}
		switch m.Method {
		case "initialize":
			time.Sleep(a.initDelay)
			a.answer(m.ID, a.initResult)
		case "session/new":
			a.sessions++
			id := "s" + strconv.Itoa(a.sessions)
			if a.beforeNew != "" {
				for _, text := range strings.Split(a.beforeNew, ",") {
					a.chunk(id, text)
				}
			}
			a.answer(m.ID, `{"sessionId":"`+id+`"}`)
		case "session/prompt":
			a.prompt(m)
		case "test/env":
			b, _ := json.Marshal(os.Environ())
			a.answer(m.ID, string(b))
		case "test/cwd":
			dir, _ := os.Getwd()
			b, _ := json.Marshal(dir)
			a.answer(m.ID, string(b))
		case "test/pids":
			a.answer(m.ID, fmt.Sprintf(`[%d,%d]`, os.Getpid(), os.Getppid()))
		case "test/terminal":
			_, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
			a.answer(m.ID, strconv.FormatBool(err == nil))
		case "test/echo":
			b, _ := json.Marshal(line)
			a.answer(m.ID, string(b))
		default:
			if m.ID != nil && m.Method != "" {
				a.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID))
			}
		}
	}
}

func (a *agent) write(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	io.WriteString(os.Stdout, line+"\n")
}

func (a *agent) answer(id json.RawMessage, result string) {
	if a.codexOrder {
		a.write(fmt.Sprintf(`{"jsonrpc":"2.0","result":%s,"id":%s}`, result, id))
		return
	}
	a.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (a *agent) chunk(session, text string) { a.write(chunkLine(session, text)) }

// chunkLine is an agent_message_chunk on the wire.
func chunkLine(session, text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":`+
		`"agent_message_chunk","content":{"type":"text","text":%s}}}}`, session, quoted)
}

func (a *agent) prompt(m message) {
	session, open := m.Params.SessionID, false
	for _, line := range strings.Split(m.Params.Prompt[0].Text, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		n, _ := strconv.Atoi(rest)
		switch verb {
		case "raw":
			a.write(rest)
		case "bytes":
			for _, b := range []byte(rest + "\n") {
				os.Stdout.Write([]byte{b})
				time.Sleep(100 * time.Microsecond)
			}
		case "chunk":
			a.chunk(session, rest)
		case "update":
			a.chunk(rest, "for "+rest)
		case "stderr":
			text := strings.Repeat("e", 79) + "\n"
			io.WriteString(os.Stderr, strings.Repeat(text, n/len(text)+1)[:n])
		case "fill":
			a.chunk(session, strings.Repeat("x", n))
		case "blob":
			block := []byte(strings.Repeat("a", 1<<16))
			for n > 0 {
				k, err := os.Stdout.Write(block[:min(n, len(block))])
				if err != nil {
					os.Exit(3)
				}
				n -= k
			}
		case "burst":
			out := bufio.NewWriterSize(os.Stdout, 64<<10)
			line := strings.Replace(chunkLine(session, ""), `"text":""`, `"text":"`+strings.Repeat("x", 200-len(chunkLine(session, "")))+`"`, 1) + "\n"
			for range n {
				io.WriteString(out, line)
			}
			out.Flush()
		case "exit":
			os.Exit(n)
		case "kill":
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Hour)
		case "deaf":
			time.Sleep(time.Hour)
		case "echo":
			got, err := a.in.ReadString('\n')
			if err != nil {
				os.Exit(4)
			}
			a.chunk(session, strings.TrimSuffix(got, "\n"))
		case "open":
			open = true
		case "closeout":
			os.Stdout.Close()
			time.Sleep(time.Hour)
		}
	}
	if !open {
		a.answer(m.ID, `{"stopReason":"end_turn"}`)
	}
}
