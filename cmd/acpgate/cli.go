package main

import "time"

// cli is the command line. Every flag is also an environment variable (envName), and everything here is shown by --help.
type cli struct {
	Serve       serveCmd       `cmd:"" default:"withargs" help:"Run the gateway. This is the default: \"acpgate --listen :0\" is \"acpgate serve --listen :0\"."`
	Token       tokenCmd       `cmd:"" help:"Manage access tokens: token add NAME, token list, token remove NAME; token link prints a new login link."`
	CheckConfig checkConfigCmd `cmd:"" help:"Check flags, environment and agents file, report every problem, and exit."`
	DemoAgent   demoAgentCmd   `cmd:"" help:"Run the built-in demo agent on stdin and stdout."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
	Healthcheck healthcheckCmd `cmd:"" hidden:"" help:"Succeed if the gateway of the state directory is ready."`
	Supervise   superviseCmd   `cmd:"" hidden:"" help:"Run one agent process; the gateway starts this itself."`
}

type serveCmd struct{ settings }

type checkConfigCmd struct{ settings }

// settings are the flags of serve and check-config, in the order of the manual.
type settings struct {
	Listen      string   `default:"127.0.0.1:8080" placeholder:"ADDR" group:"listen" help:"Address to listen on. Port 0 picks a free one; \"listening on http://ADDR\" on stderr says which. Anything but loopback needs --auth token or proxy."`
	TLSCert     string   `name:"tls-cert" placeholder:"FILE" group:"listen" help:"Serve HTTPS with this certificate chain (PEM); needs --tls-key."`
	TLSKey      string   `name:"tls-key" placeholder:"FILE" group:"listen" help:"Private key of --tls-cert (PEM)."`
	BasePath    string   `placeholder:"PATH" group:"listen" help:"Serve everything below this path, for a reverse proxy that passes it on: /acpgate."`
	AllowHost   []string `sep:"none" placeholder:"HOST[:PORT]" group:"listen" help:"Further value of the Host header to accept, besides the listen address and localhost: the name that a proxy or a DNS record gives the gateway. Repeatable."`
	AllowOrigin []string `sep:"none" placeholder:"ORIGIN" group:"listen" help:"Further web origin whose pages may connect: https://chat.example.org. Repeatable."`

	Auth        string   `default:"token" enum:"token,proxy,none" placeholder:"MODE" group:"access" help:"Who may connect: token (a token or a login link), proxy (users named by a trusted proxy's header) or none (anybody; loopback only)."`
	TokenFile   string   `placeholder:"FILE" group:"access" help:"File with the first token, made at first start if it is missing. Default: token in the state directory."`
	ProxyHeader string   `default:"X-Forwarded-User" placeholder:"NAME" group:"access" help:"Header with the user's name, for --auth proxy."`
	ProxyFrom   []string `sep:"none" placeholder:"CIDR" group:"access" help:"Address or network of a proxy whose header is believed, for --auth proxy. Repeatable."`

	MetricsOpen bool `group:"access" help:"Serve /metrics to everybody who reaches the gateway. Otherwise it needs a token, except from this machine."`

	Agent        []string `sep:"none" placeholder:"NAME=CMD" group:"agents" help:"Agent and the command that starts it: opencode=\"opencode acp\". Repeatable; the first is the default. Without any agent the demo agent is served."`
	Agents       string   `placeholder:"FILE" group:"agents" help:"Agents file (YAML or JSON) with commands, environment, MCP servers and limits. Adds to --agent."`
	EnvAllow     []string `sep:"none" placeholder:"NAME" group:"agents" help:"Variable, or PREFIX_*, that agents get from the gateway's environment besides the usual ones (PATH, HOME, LANG, proxies): ANTHROPIC_API_KEY. Repeatable."`
	DefaultAgent string   `placeholder:"NAME" group:"agents" help:"Agent of connections that name none. Default: the first one."`
	Root         []string `sep:"none" placeholder:"DIR" group:"agents" help:"Directory in which sessions may work, with everything below it. Repeatable; the first is where new sessions start. Default: the current directory and your home directory."`
	MaxProcesses int      `default:"32" placeholder:"N" group:"agents" help:"Agent processes of one user at a time."`

	State string `placeholder:"DIR" group:"state" help:"State directory: conversations, tokens, audit log. Default: $XDG_STATE_HOME/acpgate, else ~/.local/state/acpgate. One gateway at a time; made with mode 0700."`
	Redis string `placeholder:"URL" group:"state" help:"Keep conversations in Redis (6.2 or later) instead of the state directory's database: redis://, rediss://, and forms for Sentinel and Cluster, see sessions/redisstore/README.md. It may hold a password: prefer ACPGATE_REDIS."`

	Queue         int           `default:"8" placeholder:"N" group:"sessions" help:"Prompts that may wait behind a running turn; one more is refused (queue_full)."`
	RequestPolicy string        `default:"wait" enum:"wait,reject" placeholder:"POLICY" group:"sessions" help:"What happens to a permission request that nobody is there to answer: wait (for ever) or reject (after a minute). Nothing is ever approved unasked."`
	SleepAfter    time.Duration `default:"30m" placeholder:"TIME" group:"sessions" help:"Idle time after which a session's agent side is closed; the next prompt wakes it."`
	Adopt         bool          `group:"sessions" help:"A session/new goes on with the session of its directory that was used last, where nobody shows it. Clients can ask for this one by one; the page does when it opens a directory."`
	SlotTTL       time.Duration `default:"15m" placeholder:"TIME" group:"sessions" help:"How long a side conversation that /side has staged can be opened."`
	NoSideGate    bool          `group:"sessions" help:"Let agents change things in a side conversation. Otherwise what they ask to change there is refused."`
	MaxViews      int           `default:"1000" placeholder:"N" group:"sessions" help:"Live sessions of one user at a time."`

	JournalMaxEvents int           `default:"200000" placeholder:"N" group:"journal" help:"Events kept of one session."`
	JournalMaxBytes  byteSize      `default:"64MiB" placeholder:"SIZE" group:"journal" help:"Bytes kept of one session."`
	JournalMaxAge    time.Duration `default:"720h" placeholder:"TIME" group:"journal" help:"How long an event is kept."`
	JournalMemory    byteSize      `default:"2GiB" placeholder:"SIZE" group:"journal" help:"Memory of all journals together."`

	FrameLimit     byteSize      `default:"32MiB" placeholder:"SIZE" group:"limits" help:"Largest frame that a client may send; a larger one closes its connection (1009). Images travel as base64, a third larger than the file."`
	LineLimit      byteSize      `default:"64MiB" placeholder:"SIZE" group:"limits" help:"Longest line that an agent may write; a longer one is skipped and reported to its session."`
	MaxConnections int           `default:"1000" placeholder:"N" group:"limits" help:"Connections of one user at a time."`
	ConnectRate    int           `default:"50" placeholder:"N" group:"limits" help:"Connections per second that one user may open for long; four times as many at once."`
	MaxFrameRate   int           `default:"20000" placeholder:"N" group:"limits" help:"Frames per second that one connection may send for long; faster ones are slowed down."`
	MaxByteRate    byteSize      `default:"256MiB" placeholder:"SIZE" group:"limits" help:"Bytes per second that one connection may send for long; faster ones are slowed down."`
	Ping           time.Duration `default:"20s" placeholder:"TIME" group:"limits" help:"Interval of the WebSocket pings, and how long a client may take to answer one."`
	DrainTimeout   time.Duration `default:"30s" placeholder:"TIME" group:"limits" help:"How long running turns may go on after SIGTERM or SIGINT; a second signal ends them at once."`

	LogLevel  string `default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" group:"logs" help:"Least level that is logged to stderr: debug, info, warn or error."`
	LogFormat string `default:"text" enum:"text,json" placeholder:"FORMAT" group:"logs" help:"Format of the log: text or json."`
	AuditLog  string `placeholder:"FILE" group:"logs" help:"File to which logins, opened sessions and answered permissions are appended as JSON lines. Default: audit.jsonl in the state directory; none switches it off."`

	CheckOnly bool `name:"check-config" group:"logs" help:"Check the configuration, report every problem, and exit: the same as the command check-config."`
}

type tokenCmd struct {
	State string `placeholder:"DIR" help:"State directory of the gateway."`

	Add    tokenAddCmd    `cmd:"" help:"Make a token and print it, once. The gateway keeps only its hash."`
	List   tokenListCmd   `cmd:"" help:"List the names of the tokens."`
	Remove tokenRemoveCmd `cmd:"" help:"Remove a token. It ends with its next use."`
	Link   tokenLinkCmd   `cmd:"" help:"Print a new one-time login link of the running gateway."`
}

type tokenAddCmd struct {
	Name string `arg:"" help:"User for whom the token is: sessions and agents are separate by this name."`
}

type tokenListCmd struct{}

type tokenRemoveCmd struct {
	Name string `arg:"" help:"Name that was given to token add."`
}

type tokenLinkCmd struct{}

type versionCmd struct{}

type healthcheckCmd struct {
	State string `placeholder:"DIR" help:"State directory of the gateway."`
}

// The commands demo-agent and supervise are run before the command line is parsed (run); here they are in the manual.
type (
	demoAgentCmd struct {
		Args []string `arg:"" optional:"" passthrough:"" help:"Arguments of the demo agent."`
	}
	superviseCmd struct {
		Args []string `arg:"" optional:"" passthrough:"" help:"Arguments of the supervisor."`
	}
)
