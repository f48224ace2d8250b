package bench

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/loopback"
)

// nginxConfig: one process, connections to the upstream kept, no temporary files.
// Answers are buffered where files are, which is faster, and nowhere else, which
// is what streams need.
const nginxConfig = `
daemon off;
master_process off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr error;
%[2]s
events {
	worker_connections 4096;
}
http {
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	client_max_body_size 0;
	upstream sandbox {
		%[3]s
		keepalive 1024;
		keepalive_requests 1000000000;
	}
	server {
		listen %[4]s;
		%[5]s
		proxy_http_version 1.1;
		proxy_set_header Connection "";
		proxy_set_header Host $host;
		proxy_request_buffering off;
		proxy_max_temp_file_size 0;
		location / {
			%[6]s
			proxy_pass http://sandbox;
			proxy_buffering off;
		}
		location = /files {
			proxy_pass http://sandbox;
			client_body_buffer_size 256k;
			proxy_buffers 8 64k;
			proxy_busy_buffers_size 256k;
		}
	}
}
`

// What makes of nginx a proxy that asks Redis for each request.
const (
	luaModules  = "load_module /usr/lib/nginx/modules/ndk_http_module.so;\nload_module /usr/lib/nginx/modules/ngx_http_lua_module.so;"
	luaBalancer = `server 0.0.0.1; # the balancer says which
		balancer_by_lua_block {
			local balancer = require "ngx.balancer"
			assert(balancer.set_current_peer(ngx.ctx.host, ngx.ctx.port))
		}`
	luaAccess = `access_by_lua_block {
				local redis = require "nginx.redis"
				local cjson = require "cjson.safe"
				local client = redis:new()
				client:set_timeout(1000)
				local ok, err = client:connect("%[1]s", %[2]s)
				if not ok then
					return ngx.exit(503)
				end
				local text = client:get("alive:" .. (ngx.var.http_e2b_sandbox_id or ""))
				client:set_keepalive(10000, 64)
				local record = type(text) == "string" and cjson.decode(text)
				if not record or record.state ~= "running" then
					return ngx.exit(502)
				end
				ngx.ctx.host = record.host_ip
				ngx.ctx.port = record.port_mapping[ngx.var.http_e2b_sandbox_port]
			}`
)

// startNginx starts nginx; with Redis if the kind says so.
func (s *scene) startNginx(k kind, transport harness.Transport) *contestant {
	s.Helper()
	dir, address := s.TempDir(), loopback.FreeAddress(s)
	modules, peer, access := "", fmt.Sprintf("server %s;", s.upstream.Addr()), ""
	if k == nginxRedis {
		modules, peer = luaModules, luaBalancer
		access = fmt.Sprintf(luaAccess, host(s.redis.Addr), port(s.redis.Addr))
	}
	listen, tls := address, ""
	if transport != harness.Cleartext {
		cert, key := harness.Certificate(s)
		listen = address + " ssl http2"
		tls = fmt.Sprintf("ssl_certificate %s;\nssl_certificate_key %s;", cert, key)
	}
	file := filepath.Join(dir, "nginx.conf")
	config := fmt.Sprintf(nginxConfig, dir, modules, peer, listen, tls, access)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.Fatal(err)
	}
	return s.run(k, address, "nginx", "-c", file, "-p", dir)
}
