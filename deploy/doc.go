// Package deploy has the files to run dovetail serve for a team: a container, Kubernetes and systemd. Its tests check them.
package deploy
