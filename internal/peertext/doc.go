// Package peertext shows the text of peers on terminals and in logs: names, messages, results
// and standard error of servers that may be hostile.
//
// [Escape] makes one text visible. [Writer] is for streams of lines, such as the standard error
// of a child process. [Screen] is for the output of a program that mixes its own text with the
// text of peers. Nothing that these functions return contains a control character other than a
// line break, a character that changes the direction of text, or an invisible character.
package peertext
