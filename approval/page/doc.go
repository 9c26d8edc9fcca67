// Package page serves a web page on which a person approves or rejects calls. The page
// connects to a channel of package approval/channel over a WebSocket:
//
//	mux.Handle("/approval", ch) // a *channel.Channel
//	mux.Handle("/approvals/", page.Handler(nil))
//	fmt.Println("http://127.0.0.1:8900/approvals/#token=" + ch.Token())
//
// # Guarantees
//
//  1. The page shows the exact bytes of the arguments: it formats the JSON text without decoding it, makes invisible
//     characters visible, and compares the SHA-256 of the text with the SHA-256 from the channel.
//  2. The files contain no secret, and need no token. The token is in the fragment of the
//     page's URL, which a browser does not send to any server, and the page sends it as a
//     WebSocket subprotocol.
//  3. Several people can have the page open. The first answer decides, and the others see it.
//  4. A desktop notification contains the title of a tool and the name of its server only. It is off
//     until the person switches it on.
//  5. Keyboard shortcuts can be switched off. They never act in a field.
//  6. The page loads nothing from other hosts. Its files are plain HTML, CSS and JavaScript,
//     embedded in the program.
package page
