package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	acp "github.com/coder/acp-go-sdk"
)

// echoWhole is the length in bytes from which a text is echoed in one chunk instead of word by word.
const echoWhole = 2 << 10

// errCancelled cancels a turn because the client said so.
var errCancelled = errors.New("cancelled")

// stopError ends a turn with a stop reason other than end_turn.
type stopError struct{ reason acp.StopReason }

func (e stopError) Error() string { return "stopped: " + string(e.reason) }

// turn is one prompt and its answer.
type turn struct {
	s       *session
	request json.RawMessage // its id
	began   int             // entries before it
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}

	// What follows belongs to the turn's goroutine.
	sleeps    context.Context // what pauses listen to: ctx, or the session's for turns that ignore a cancel
	blocks    []acp.ContentBlock
	text      string // the user's last text
	body      string // the same without directives
	messageID string
	lastID    string          // of the message before
	said      strings.Builder // of the message that is streaming
	out       int             // bytes said in the turn
	quiet     bool            // no ECHO at the end
	after     []func()        // once the prompt was answered
}

func (a *agent) prompt(m message) (any, *session, error) {
	p, err := decode[acp.PromptRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	s := a.session(string(p.SessionId))
	if s == nil {
		return nil, nil, notFound(string(p.SessionId))
	}
	if len(p.Prompt) == 0 {
		return nil, nil, acp.NewInvalidParams(reason("prompt is empty"))
	}
	if a.cfg.Off.Embedded && hasResource(p.Prompt) {
		return nil, nil, acp.NewInvalidParams(reason("embedded resources are not supported"))
	}
	t := &turn{s: s, request: m.ID, done: make(chan struct{}), blocks: kept(p.Prompt), text: lastText(p.Prompt)}
	t.ctx, t.cancel = context.WithCancelCause(s.ctx)
	t.sleeps = t.ctx
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		t.cancel(nil)
		return nil, nil, acp.NewInvalidRequest(reason("a turn of the session is running"))
	}
	t.began = len(s.entries)
	s.turn = t
	a.turns.Add(1)
	go t.run()
	return nil, nil, errLater
}

func (t *turn) run() {
	defer t.s.a.turns.Done()
	defer close(t.done)
	defer t.cancel(nil)
	var (
		stop acp.StopReason
		said stopError
		rpc  *acp.RequestError
		exit exitError
	)
	err := t.play()
	if errors.As(err, &exit) {
		t.s.a.end(exit) // what was streamed is lost, as in a crash
		return
	}
	t.flush()
	switch {
	case err == nil:
		stop = acp.StopReasonEndTurn
	case errors.As(err, &said):
		stop = said.reason
	case errors.As(err, &rpc):
	case t.ctx.Err() != nil:
		stop = acp.StopReasonCancelled
	default:
		rpc = acp.NewInternalError(reason(err.Error()))
	}
	t.s.keep(entry{Kind: entryEnd, Stop: stop})
	if rpc == nil {
		t.s.updateUsage()
	}
	t.s.mu.Lock()
	t.s.turn = nil // before the answer: the client may prompt again as soon as it has it
	t.s.mu.Unlock()
	in, out := t.s.tokens(), (t.out+3)/4
	t.s.a.answer(t.request, acp.PromptResponse{
		StopReason: stop, Usage: &acp.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out},
	}, rpc)
	for _, fn := range t.after {
		fn()
	}
}

// play does what the prompt asks for.
func (t *turn) play() error {
	s := t.s
	s.mu.Lock()
	first := s.title == ""
	if first {
		s.title = titleOf(t.text)
	}
	title := s.title
	todo, body := parseDirectives(t.text)
	todo = append(s.next, todo...)
	s.next = nil
	s.mu.Unlock()
	t.body = body
	if err := s.add(entry{Kind: entryUser, ID: newUUID(), Blocks: t.blocks}); err != nil {
		return fmt.Errorf("the session cannot be saved: %w", err)
	}
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	info := &acp.SessionSessionInfoUpdate{UpdatedAt: &now}
	if first {
		info.Title = &title
	}
	s.update(acp.SessionUpdate{SessionInfoUpdate: info})
	if s.option(optionVerbosity) == verbosityTho {
		todo = append([]directive{{name: "THINK"}}, todo...)
	}
	for _, d := range todo {
		if err := act(d.name)(t, d.arg); err != nil {
			return err
		}
	}
	if t.quiet {
		return nil
	}
	return t.answer(len(todo) == 0)
}

// answer ends the turn's last message with the ECHO line. plain: the prompt had no directives.
func (t *turn) answer(plain bool) error {
	if plain {
		if text := friendly(t.body); text != "" {
			if err := t.stream(text); err != nil {
				return err
			}
		}
	}
	for _, note := range describeMedia(t.blocks) {
		if err := t.stream(note + "\n"); err != nil {
			return err
		}
	}
	messages, texts := t.s.count()
	if t.said.Len() > 0 {
		t.say("\n")
	}
	line := fmt.Sprintf("ECHO[%s] (%d messages in context, %d user texts)", t.text, messages, len(texts))
	if len(t.text) >= echoWhole {
		return t.say(line)
	}
	return t.stream(line)
}

// say sends a chunk of the agent's message.
func (t *turn) say(text string) error {
	if err := t.pause(0); err != nil {
		return err
	}
	if t.messageID == "" {
		t.messageID = newUUID()
	}
	t.said.WriteString(text)
	t.out += len(text)
	t.s.chunk(messageChunk, t.messageID, text)
	return nil
}

// stream sends text word by word.
func (t *turn) stream(text string) error {
	for i, w := range words(text) {
		if i > 0 {
			if err := t.pause(t.s.delay()); err != nil {
				return err
			}
		}
		if err := t.say(w); err != nil {
			return err
		}
	}
	return nil
}

// flush ends the agent's message: what is said next is another one.
func (t *turn) flush() {
	if t.said.Len() == 0 {
		return
	}
	t.s.keep(entry{Kind: entryAgent, ID: t.messageID, Text: t.said.String()})
	t.said.Reset()
	t.lastID, t.messageID = t.messageID, ""
}

// pause waits, or returns why the turn is cancelled.
func (t *turn) pause(d time.Duration) error {
	return sleep(t.sleeps, d)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// words cuts text behind the white space that follows a word: joined again they are the text.
func words(text string) []string {
	var out []string
	begin, inWord, behind := 0, false, false
	for i, r := range text {
		switch {
		case unicode.IsSpace(r):
			behind = inWord || behind
			inWord = false
		case behind:
			out = append(out, text[begin:i])
			begin, inWord, behind = i, true, false
		default:
			inWord = true
		}
	}
	if begin < len(text) {
		out = append(out, text[begin:])
	}
	return out
}

func (s *session) option(id acp.SessionConfigId) acp.SessionConfigValueId {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options[id]
}
