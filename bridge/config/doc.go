// Package config reads the files in which people write down their MCP servers:
// those of Claude Desktop, Claude Code, Cursor, Windsurf, Gemini CLI, VS Code
// and most others.
//
// [Load] gives a [File] of servers with their text as it stands there. [File.Bridge] puts
// values in place of variables, and says how a bridge reaches each server:
//
//	file, err := config.Load("mcp.json")
//	configs, err := file.Bridge(ctx, &config.Expander{Ask: config.AskEnv}, nil)
//	servers, err := bridge.New(nil, configs...)
//	err = s.Mount(servers, nil)
//
// [Watch] follows a file, and [bridge.Bridge.Update] leaves the servers alone that are as
// they were. What stands between the bridge and the server it is mounted on is made by
// bridge/pin, which holds tools to definitions that somebody has accepted, and
// bridge/search, which shows two tools in place of hundreds; each is optional:
//
//	found, err := search.New(pin.Guarded(servers, "all", lock, nil), nil)
//	err = s.Mount(found, nil)
//
// Without a bridge, [Server.Expand] gives a [Resolved], [Resolved.Dialer] the way to that
// server, and [Resolved.Fingerprint] tells whether a new version of a file means another.
//
// # Files
//
// A file is JSON, in UTF-8, in which comments and trailing commas are allowed.
// Its servers are the members of "mcpServers", of "servers" (VS Code, with
// "inputs"), or of the file itself; or they are an array of objects with a
// "name". A server has these members, each under any one of its names:
//
//	command                                    the program
//	args                                       its arguments
//	env                                        variables of its environment
//	envFile, env_file                          a file of such variables
//	cwd, working_dir, workingDir, workingDirectory
//	url, httpUrl, serverUrl                    the address of a remote server
//	headers, http_headers, httpHeaders         of each HTTP request
//	type, transport, transportType, protocol   stdio, http, sse, ws
//	disabled, enabled
//	timeout                                    of a call: milliseconds, or "30s"
//	includeTools, allowedTools, enabledTools, enabled_tools    the only tools to show
//	excludeTools, disabledTools, disabled_tools
//	dovetail                                   Options, which no other host reads
//
// Names are compared exactly: one that differs in case only is an error, not
// something to overlook. A member that is not listed is kept and reported as a
// [Warning]; an unknown one of "dovetail" is an error.
//
// A type decides. Without one, a server with a command is run, and one with a URL
// is spoken to by WebSocket if its scheme is ws or wss, by HTTP+SSE if the last
// segment of its path is "sse", and by streamable HTTP otherwise, as with "httpUrl".
//
// # Variables
//
// In command, args, env, envFile, cwd, url and headers, what stands on the left
// is replaced by what stands on the right:
//
//	${NAME}, ${env:NAME}  a variable of the environment; NAME is [A-Za-z0-9_]+
//	${input:ID}           an answer of the user
//	${file:PATH}          the content of a file, without the line break at its end
//	${SCHEME:NAME}        whatever Expander.Resolve makes of it; SCHEME is [a-z][a-z0-9]*
//	${workspaceFolder}    and ${workspaceFolderBasename}, ${userHome}, ${pathSeparator}
//	$${                   the text ${
//
// With ":-" before the brace, a default follows that stands in for a value which
// is not set or is empty: ${NAME:-default}. Everything else, such as ${foo-bar},
// $NAME and ${}, is text. What a variable brings in is never looked at again, so a
// value may hold anything, and a default may not hold a variable.
//
// A variable without a value is an error that names it, unless [Expander.Unset]
// says otherwise. Expand what the user of this machine wrote, and nothing else: a
// server that somebody names over the network could read the environment and files
// and send them anywhere. Make a [Resolved] of that, which is never expanded.
//
// # Secrets
//
// The texts of a Resolved are of type [Secret], which prints with the variables
// still in it. Values of the environment and of headers do not print at all, nor do
// the user, password, query and fragment of a URL; what else was written out in a
// command or URL does. A File and a [Server] print as names. Errors tell no values,
// unless an error of the program's own functions does.
//
// All functions may be called concurrently; nothing here is changed after it was
// made.
package config
