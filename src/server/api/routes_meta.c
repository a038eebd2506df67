/* Health, the OpenAPI document and a page to read it. */

#include "server/api/api.h"
#include "server/api/spec.h"

void route_health(struct http_req *req)
{
    http_resp_send(req, 200, "application/json", STR("{\"status\":\"healthy\"}"));
}

void route_openapi(struct http_req *req)
{
    http_resp_send(req, 200, "application/json", str_n(spec_lifecycle, spec_lifecycle_len));
}

/* Self-contained: nothing is fetched from elsewhere, so that it works without the internet. */
static const char page[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\"><title>OpenSandbox Lifecycle "
    "API</title>"
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 "
    "1rem}"
    "code,pre{font:13px ui-monospace,monospace}summary{cursor:pointer;padding:.35rem 0}"
    "pre{background:#8881;padding:.6rem;overflow:auto}b{display:inline-block;width:4.5rem}"
    "details{border-top:1px solid #8884}</style><h1></h1><p></p><main></main><script>"
    "fetch('openapi.json').then(r=>r.json()).then(d=>{"
    "document.querySelector('h1').textContent=d.info.title+' '+d.info.version;"
    "document.querySelector('p').textContent=d.info.description||'';"
    "const m=document.querySelector('main');"
    "for(const[p,ops]of Object.entries(d.paths))for(const[v,o]of Object.entries(ops)){"
    "if(!o.responses)continue;const e=document.createElement('details'),"
    "s=document.createElement('summary'),b=document.createElement('b'),"
    "c=document.createElement('code'),t=document.createElement('pre');"
    "b.textContent=v.toUpperCase();c.textContent=p;s.append(b,c,' ',o.summary||'');"
    "t.textContent=JSON.stringify(o,null,2);e.append(s,t);m.append(e)}"
    "const h=document.createElement('h2');h.textContent='Schemas';m.append(h);"
    "for(const[n,o]of Object.entries(d.components.schemas)){const "
    "e=document.createElement('details'),"
    "s=document.createElement('summary'),t=document.createElement('pre');s.textContent=n;"
    "t.textContent=JSON.stringify(o,null,2);e.append(s,t);m.append(e)}})</script>";

void route_docs(struct http_req *req)
{
    http_resp_header(req, STR("Content-Security-Policy"),
                     STR("default-src 'none'; script-src 'unsafe-inline'; style-src "
                         "'unsafe-inline'; connect-src 'self'"));
    http_resp_send(req, 200, "text/html; charset=utf-8", str_n(page, sizeof(page) - 1));
}
