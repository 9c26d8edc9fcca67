package oauth

// OpenBrowserBy is OpenBrowser on any system, with any way to start a command.
var OpenBrowserBy = openBrowser
