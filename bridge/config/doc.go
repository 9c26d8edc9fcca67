// Package config reads the configuration files of MCP hosts, such as Claude Desktop, Claude Code, Cursor, Windsurf,
// Gemini CLI and VS Code.
//
// [Load] returns a [File] with the servers as they are written. [File.Bridge] replaces the
// variables and returns the servers for a bridge:
//
//	file, err := config.Load("mcp.json")
//	configs, err := file.Bridge(ctx, &config.Expander{Prompt: config.PromptEnv}, nil)
//	servers, err := bridge.New(nil, configs...)
//	err = s.Mount(servers, nil)
//
// [Watch] follows a file; [bridge.Bridge.Update] keeps unchanged servers running. Without a
// bridge, [Server.Expand] returns a [Resolved] server, [Resolved.Dialer] connects to it, and
// [Resolved.Fingerprint] tells whether it has changed.
//
// # Files
//
// A file is JSON in UTF-8; comments and trailing commas are allowed. Its servers are the
// members of "mcpServers", of "servers" (VS Code, with "inputs"; in its settings inside "mcp"), of "mcp" (OpenCode), of
// "context_servers" (Zed), of "mcp_servers" (Codex, as JSON), or of the file itself, or
// the elements of an array of objects with a "name". Each member of a server has several
// names:
//
//	command                                    the program, or an array of the program and arguments
//	args                                       its arguments
//	env, environment                           its environment variables
//	env_vars                                   the names of variables of this process that it gets, too
//	envFile, env_file                          a file of environment variables
//	cwd, working_dir, workingDir, workingDirectory
//	url, httpUrl, serverUrl                    the address of a remote server
//	headers, http_headers, httpHeaders         of each HTTP request
//	env_http_headers                           of each HTTP request: the names of environment variables
//	bearer_token_env_var                       the name of an environment variable with a token
//	type, transport, transportType, protocol   stdio or local, http, sse, ws, or remote: the URL decides
//	oauth                                      clientId, clientSecret, issuer, callbackPort and scopes (or scope) of a login
//	disabled, enabled
//	timeout                                    of a call: milliseconds, at least 1000, or "30s"; seconds in Zed
//	tool_timeout_sec, startup_timeout_sec, startup_timeout_ms
//	includeTools, allowedTools, enabledTools, enabled_tools, tools    the only tools to offer
//	excludeTools, disabledTools, disabled_tools
//	dovetail                                   Options, which no other host reads
//
// Names are compared exactly. A name that differs from one of these only in case is an error.
// Other unknown members are kept and reported as a [Warning]; inside "dovetail" they are
// errors.
//
// A name that is not a valid alias of a bridge gets an alias; see [Parse]. A mistake in the entry of a server disables
// that server only: [Load] and [Parse] then return the file and the error.
//
// Without a type, a server with a command runs as a child process. The transport of a URL is
// WebSocket if its scheme is ws or wss, HTTP+SSE if the last segment of its path is "sse", and
// streamable HTTP otherwise, as always with "httpUrl".
//
// # Variables
//
// Variables are replaced in command, args, env, envFile, cwd, url, headers and oauth:
//
//	${NAME}, ${env:NAME}  an environment variable; NAME is [A-Za-z0-9_]+
//	${input:ID}           an answer of the user
//	${file:PATH}          the content of a file, without a line break at its end
//	${SCHEME:NAME}        the result of Expander.Resolve; SCHEME is [a-z][a-z0-9]*
//	${workspaceFolder}    and ${workspaceFolderBasename}, ${userHome}, ${pathSeparator} or ${/}
//	$${                   the text ${
//	$NAME                 in a file of Gemini CLI; in others as a value of env, and as a word of a value of headers
//	{env:NAME}            in "mcp", as in OpenCode; and {file:PATH}
//
// A file is one of Gemini CLI if its folder is .gemini (or .qwen, of its fork), or a server has "httpUrl" or "trust". A PATH may begin with ~/.
//
// ${NAME:-default} uses the default if the value is missing or empty. A default must not
// contain a variable. Values are not expanded again. A variable without a value is an error that names it. So is
// ${ in another text, such as ${workspaceFolder:a}, and $(, since commands are not run. Command and args may be those
// of a shell: other text in them, such as ${foo-bar}, $NAME and ${}, stays as it is.
//
// Expand only files that the user of this machine wrote. The configuration of a server that
// comes over the network could read environment and files: set [Expander.NoExpand] for it.
//
// # Guarantees
//
//  1. The values of a Resolved server are of type [Secret], which prints with the variables
//     unexpanded. Values of environment variables and headers, and the user, password, query
//     and fragment of a URL, are never printed. Other texts that the file contains are.
//  2. A File and a [Server] print as names only.
//  3. Errors contain no values, except in errors of the program's own functions.
//  4. All functions may be called concurrently. Values do not change after they are returned.
//  5. A file has at most 1 MiB and 256 servers. After expansion, a text has at most 128 KiB, and the texts of a server
//     have at most 1 MiB together.
//
// # Related packages
//
// bridge runs the servers, bridge/pin hides tools whose definitions have changed, and
// bridge/search replaces long lists of tools by two tools:
//
//	found, err := search.New(pin.Wrap(servers, "all", lock, nil), nil)
//	err = s.Mount(found, nil)
package config
