package demo

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

// recall lists every user text in the context, the system prompt first if there is one. White space is folded, so that
// each text is one line; nothing is cut.
func (t *turn) recall(string) error {
	_, texts := t.s.count()
	var b strings.Builder
	fmt.Fprintf(&b, "%d user texts:\n\n", len(texts))
	t.s.mu.Lock()
	if t.s.system != "" {
		fmt.Fprintf(&b, "system) %s\n", strings.Join(strings.Fields(t.s.system), " "))
	}
	t.s.mu.Unlock()
	for i, text := range texts {
		fmt.Fprintf(&b, "%d) %s\n", i+1, strings.Join(strings.Fields(text), " "))
	}
	return t.say(b.String())
}

func (t *turn) think(string) error {
	t.flush()
	id, text := newUUID(), thoughtsAbout(t.body)
	for i, w := range words(text) {
		if i > 0 {
			if err := t.pause(t.s.delay()); err != nil {
				return err
			}
		}
		t.s.chunk(thoughtChunk, id, w)
	}
	t.s.keep(entry{Kind: entryThought, ID: id, Text: text})
	return nil
}

// plan works through a plan of four steps.
func (t *turn) plan(string) error {
	t.flush()
	steps := []string{"Read what was asked", "Look at the code", "Make the change", "Check the result"}
	entries := make([]acp.PlanEntry, len(steps))
	for i, step := range steps {
		entries[i] = acp.PlanEntry{Content: step, Priority: acp.PlanEntryPriorityMedium, Status: acp.PlanEntryStatusPending}
	}
	entries[2].Priority = acp.PlanEntryPriorityHigh
	show := func() { t.s.update(acp.UpdatePlan(append([]acp.PlanEntry(nil), entries...)...)) }
	show()
	for i := range entries {
		entries[i].Status = acp.PlanEntryStatusInProgress
		show()
		if err := t.pause(20 * t.s.delay()); err != nil {
			return err
		}
		entries[i].Status = acp.PlanEntryStatusCompleted
	}
	show()
	t.s.keep(entry{Kind: entryPlan, Plan: entries})
	return nil
}

func (t *turn) slow(arg string) error {
	n, pause, ok := times(arg)
	if arg == "" {
		n, pause, ok = 20, 500*time.Millisecond, true
	}
	if !ok {
		return badArg("SLOW", arg, "<ticks>x<milliseconds>")
	}
	for i := range n {
		if err := t.say(fmt.Sprintf("tick %d/%d ", i+1, n)); err != nil {
			return err
		}
		if err := t.pause(pause); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) long(arg string) error {
	kib, err := number("LONG", arg, 64, maxLong)
	if err != nil {
		return err
	}
	const line = "lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do\n"
	text := strings.Repeat(line, kib*1024/len(line)+1)
	return t.say(text[:kib*1024])
}

// runes says exactly n runes of several bytes and nothing else.
func (t *turn) runes(arg string) error {
	n, err := number("RUNES", arg, 100, maxRunes)
	if err != nil {
		return err
	}
	t.quiet = true
	return t.say(string([]rune(strings.Repeat("äß한글😀 ", n/6+1))[:n]))
}

func (t *turn) sayBody(string) error {
	t.quiet = true
	return t.stream(t.body)
}

// raw sends the JSON behind it as the update object of a session/update.
func (t *turn) raw(string) error {
	if !json.Valid([]byte(t.body)) {
		return badArg("RAW", t.body, "a JSON value behind it")
	}
	t.flush()
	t.s.updateRaw(json.RawMessage(t.body))
	return nil
}

// nextTime puts a directive in front of the next prompt of the session, whoever writes it.
func (t *turn) nextTime(arg string) error {
	name, arg, _ := strings.Cut(arg, ":")
	if act(name) == nil {
		return badArg("NEXT", name, "a directive")
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.next = append(t.s.next, directive{name, arg})
	return nil
}

// compact replaces the context by a summary.
func (t *turn) compact(string) error {
	t.flush()
	id, announced := newUUID(), t.s.a.clientInfo().compaction
	if announced {
		t.s.updateCompaction(id, "in_progress")
	}
	if err := t.pause(20 * t.s.delay()); err != nil {
		if announced {
			t.s.updateCompaction(id, "cancelled")
		}
		return err
	}
	messages, texts := t.s.count()
	t.s.keep(entry{Kind: entryCompact, ID: id, Text: fmt.Sprintf("Summary of %d messages with %d user texts.", messages, len(texts))})
	if announced {
		t.s.updateCompaction(id, "completed")
	}
	return t.stream(fmt.Sprintf("Compacted %d messages to a summary.\n", messages))
}

func (t *turn) switchMode(arg string) error {
	if !t.s.setMode(acp.SessionModeId(arg)) {
		return badArg("MODE", arg, "ask, code or read-only")
	}
	return nil
}

func (t *turn) fail(arg string) error {
	code := -32603
	if arg != "" {
		var err error
		if code, err = strconv.Atoi(arg); err != nil {
			return badArg("FAIL", arg, "an error code")
		}
	}
	return &acp.RequestError{Code: code, Message: "The demo agent was told to fail", Data: reason("FAIL in the prompt")}
}

// crash ends the process: with an exit code, or by SIGKILL.
func (t *turn) crash(arg string) error {
	if arg == "kill" {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		<-t.s.ctx.Done() // the signal is on its way
		return context.Cause(t.s.ctx)
	}
	code, err := number("CRASH", arg, 1, 255)
	if err != nil {
		return err
	}
	return exitError{code}
}

func (t *turn) maxTokens(string) error {
	if err := t.stream("This answer is cut off in the middle of"); err != nil {
		return err
	}
	return stopError{acp.StopReasonMaxTokens}
}

// ignoreCancel streams on whatever the client says, and then ends the turn as if nothing had been said. Closing the session
// or ending stdin still stops it.
func (t *turn) ignoreCancel(arg string) error {
	t.sleeps = t.s.ctx
	if arg == "" {
		arg = "50x100"
	}
	return t.slow(arg)
}

// late sends a chunk of the turn's last message after the response.
func (t *turn) late(string) error {
	t.after = append(t.after, func() { t.s.chunkLater(t.lastID, "late ") })
	return nil
}

// background sends a message after some milliseconds, most likely while no prompt is open.
func (t *turn) background(arg string) error {
	ms, err := number("BACKGROUND", arg, 1000, int(maxPause/time.Millisecond))
	if err != nil {
		return err
	}
	s := t.s
	s.a.turns.Add(1) // the turn itself is counted, so this cannot race with the last Wait
	go func() {
		defer s.a.turns.Done()
		if sleep(s.ctx, time.Duration(ms)*time.Millisecond) == nil {
			s.chunkLater(newUUID(), "A message from the background.")
		}
	}()
	return nil
}

// chunkLater is a message outside any turn.
func (s *session) chunkLater(id, text string) {
	s.chunk(messageChunk, id, text)
	s.keep(entry{Kind: entryAgent, ID: id, Text: text})
}

// image sends a picture of 64 by 64 pixels.
func (t *turn) image(string) error {
	const n = 64
	img := image.NewRGBA(image.Rect(0, 0, n, n))
	for y := range n {
		for x := range n {
			img.Set(x, y, color.RGBA{R: uint8(4 * x), G: uint8(4 * y), B: 160, A: 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return err
	}
	return t.block(acp.ImageBlock(base64.StdEncoding.EncodeToString(b.Bytes()), "image/png"))
}

func (t *turn) link(string) error {
	return t.block(acp.ResourceLinkBlock("README.md", "file:///README.md"))
}

func (t *turn) resource(string) error {
	return t.block(acp.ResourceBlock(acp.EmbeddedResourceResource{TextResourceContents: &acp.TextResourceContents{
		Uri: "demo:note.txt", MimeType: acp.Ptr("text/plain"), Text: "An embedded note.\n",
	}}))
}

// block sends a content block that is no text as a message of its own. It is not kept in the history.
func (t *turn) block(b acp.ContentBlock) error {
	t.flush()
	id := newUUID()
	t.s.update(acp.SessionUpdate{AgentMessageChunk: &acp.SessionUpdateAgentMessageChunk{Content: b, MessageId: &id}})
	return t.pause(0)
}
