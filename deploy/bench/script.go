package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What the agent of the benchmark says. It is the demo agent playing a script, the same for all contenders.
const (
	sessionDigits = 6
	countDigits   = 9
	stampDigits   = 19 // Unix time in nanoseconds

	smallUpdate = 200      // bytes of an update without its line break
	largeUpdate = 4 << 10  // likewise
	blockBytes  = 64 << 10 // of an agent that writes in blocks
	loadUpdates = 10_000   // of a session that is loaded
	endOfFlood  = "flood-over"
)

// sessionName is the id of the n-th session that a process makes.
func sessionName(n int) string { return fmt.Sprintf("bench-%0*d", sessionDigits, n) }

// updateLine returns the beginning and the end of an update whose text is middle bytes longer than nothing, padded to size
// bytes in all.
func updateLine(session string, middle, size int) (prefix, suffix string) {
	prefix = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + session +
		`","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`
	const end = `"}}}}`
	return prefix, strings.Repeat("x", max(0, size-len(prefix)-middle-len(end))) + end
}

// burst is the script step that writes as many updates as the prompt says.
func burst(how string, stamped bool, size int) string { return burstOf("${text}", how, stamped, size) }

func burstOf(count, how string, stamped bool, size int) string {
	middle, text := countDigits, fmt.Sprintf("${n:%d}", countDigits)
	if stamped {
		middle += stampDigits
		text += "${now}"
	}
	_, suffix := updateLine(sessionName(1), middle, size)
	prefix, _ := updateLine("${session}", 0, 0)
	return "burst " + count + " " + strings.TrimSpace(how+" | "+prefix+text+suffix)
}

const (
	answerPrompt = `send {"jsonrpc":"2.0","id":${id},"result":{"stopReason":"end_turn"}}`
	answerEmpty  = `send {"jsonrpc":"2.0","id":${id},"result":{}}`
)

// agentScripts are the agents by name.
func agentScripts() map[string]string {
	inBlocks := fmt.Sprintf("block %d", blockBytes)
	on := func(method string, steps ...string) string {
		return "on " + method + "\n" + strings.Join(steps, "\n") + "\nend\n"
	}
	prefix, _ := updateLine("${session}", 0, 0)
	mark, _ := updateLine(sessionName(1), 0, 0)
	scripts := map[string]string{
		"line200":  on("session/prompt", burst("", false, smallUpdate), answerPrompt),
		"block200": on("session/prompt", burst(inBlocks, false, smallUpdate), answerPrompt),
		"line4k":   on("session/prompt", burst("", false, largeUpdate), answerPrompt),
		"block4k":  on("session/prompt", burst(inBlocks, false, largeUpdate), answerPrompt),
		"paced":    on("session/prompt", burst("every 100ms", true, smallUpdate), answerPrompt),
		"echo": "answer session/prompt {\"stopReason\":\"end_turn\"}\n" +
			"answer _bench/echo {}\n",
		// A session that is written to fast beside others that are paced.
		"beside": on("session/prompt", burst("every 10ms", true, smallUpdate), answerPrompt) +
			on("_bench/flood", burst("every 200us", false, largeUpdate), answerEmpty),
		// A session that is written to as fast as it goes; the first session is told when it is over.
		"flood": on("_bench/flood", burst(inBlocks, false, largeUpdate), answerEmpty, "send "+mark+endOfFlood+`"}}}}`),
		"load":  on("session/load", burstOf(fmt.Sprint(loadUpdates), "", false, smallUpdate), answerEmpty),
		"big":   on("session/prompt", "send "+prefix+`${text}"}}}}`, answerPrompt),
	}
	for name, steps := range scripts {
		scripts[name] = `answer initialize {"protocolVersion":1,"agentCapabilities":{"loadSession":true}}` + "\n" +
			fmt.Sprintf("answer session/new {\"sessionId\":\"bench-${n:%d}\"}\n", sessionDigits) + steps
	}
	return scripts
}

// writeScripts writes all scripts into dir and returns the command line of each agent.
func writeScripts(dir, acpgate string) (map[string][]string, error) {
	agents := map[string][]string{}
	for name, text := range agentScripts() {
		file := filepath.Join(dir, name+".script")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		agents[name] = []string{acpgate, "demo-agent", "--script", file}
	}
	return agents, nil
}
