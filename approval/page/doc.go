// Package page serves the web page on which a person decides about calls, in a browser,
// over the WebSocket of package approval/channel:
//
//	mux.Handle("/approval", asked)                   // a *channel.Channel
//	mux.Handle("/approvals/", page.Handler(nil))
//	fmt.Println("http://127.0.0.1:8900/approvals/#token=" + asked.Token())
//
// The page shows the arguments byte for byte: their text is cut out of the frame, laid out
// without being decoded, characters that cannot be seen are made visible, and its SHA-256
// is compared with the one that the channel sent.
//
// The files hold no secret and need no token. The token travels in the fragment of the
// page's URL, which a browser sends to nobody, and from there as a WebSocket subprotocol.
// The files are plain HTML, CSS and JavaScript, embedded as they are, and everything that
// they load comes from the handler.
package page
