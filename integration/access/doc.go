// Package access proves from outside who gets in: the whole gateway before the
// ROCK double, with curl and the real SDKs in front of it, a good and every kind
// of bad credential, and two tenants who hate each other.
package access
