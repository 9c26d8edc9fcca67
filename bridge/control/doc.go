// Package control changes a running server over HTTP: it adds and removes servers, sets credentials
// for commands, and starts programs. It is for the operator of a sandbox, not for the agent in it.
//
//	servers, err := control.NewServers(nil)
//	…
//	err = s.Mount(servers, &server.MountOptions{Prefix: control.Prefix})
//	…
//	c, err := control.New(&control.Options{Shell: sh, Servers: servers})
//	…
//	defer c.Close()
//	mux.Handle("/", c)
//	log.Print("the control token is ", c.Authenticator().Token())
//
// # Routes
//
//	GET    /health              {"status":"ok"}, without a token
//	POST   /credential          {"user_api_key":"…","session_id":"…"}
//	POST   /tool-server-url     {"tool_server_url":"…"}
//	POST   /custom-mcp          {"mcpServers":{…}} adds servers, or replaces servers of the same names
//	PUT    /custom-mcp          the same; it replaces all added servers
//	DELETE /custom-mcp/{server}
//	POST   /sidecars/{name}     starts a program of [Options].Sidecars unless it runs
//	POST   /register-codex      the same for the name "codex"
//
// All of them except /health are also below /mcp. A credential is available to commands as
// USER_API_KEY: they name it by the session_id; see package shell. The URL of a tool server is
// TOOL_SERVER_URL in the environment of commands.
//
// A response has a JSON object. Success is {"status":"success"}, with the names of the tools that
// a server offers as "tools", or the URL of a sidecar as "url"; the status of a sidecar that runs
// already is "already_running". These statuses have the body {"error":"…"}: 400 for a malformed
// request, 404 for an unknown server, 409 for one credential or server too many, and 413 for a body
// of more than 1 MiB. These have the body {"status":"error","message":"…"}: 404 for an unknown
// sidecar, and 500 and 502 if a program or a server does not start, or a tool server does not
// answer. A request without a valid token gets 401, and a request of a web page 403.
//
// # Guarantees
//
//  1. Each request except GET /health needs a token of [Options].Authenticator. These routes start
//     programs, and no policy applies to them: give their token to the operator only, and agents
//     another one. Requests of web pages are refused, whatever their origin.
//  2. Credentials are never in responses or logs.
//  3. If a server cannot be started, nothing changes. Each request sends at most one notification
//     of changed lists to the clients.
//  4. Variables such as ${TOKEN} in a request are not expanded.
//  5. All methods may be called concurrently.
package control
