-- SPDX-License-Identifier: Apache-2.0
--
-- What wrk posts to Web Push endpoints: one message after another to the next of some endpoints, no two alike. A body
-- begins with the instant of its sending. Rests on wrk, one thread of it, and on LuaJIT.
--
--     wrk -t 1 … -s webpush.lua http://HOST:PORT -- STATE PAYLOAD
--
-- STATE is the file of webpush_agents.py; PAYLOAD is the bytes of the body.

local ffi = require("ffi")
ffi.cdef [[
    typedef struct { long seconds; long nanoseconds; } instant;
    int clock_gettime(int clock, instant *now);
]]
local heads, rest, count, instant = {}, "", 0, ffi.new("instant")

function init(arguments)
    local state, payload = unpack(arguments)
    rest = string.rep("x", tonumber(payload) - 24)
    for line in io.lines(state) do
        local path = line:match("https?://[^/]+(/%S+)$")
        heads[#heads + 1] = table.concat({
            "POST " .. path .. " HTTP/1.1",
            "Host: " .. wrk.host .. ":" .. wrk.port,
            "TTL: 2419200",
            "Content-Encoding: aes128gcm",
            "Content-Length: " .. payload,
            "", ""}, "\r\n")
    end
end

function request()
    count = count + 1
    ffi.C.clock_gettime(1, instant)
    -- In two halves: a number of Lua has 53 bits.
    local nanoseconds = instant.seconds * 1000000000LL + instant.nanoseconds
    return heads[count % #heads + 1] .. string.format(
        "%08x%08x%08x", tonumber(nanoseconds / 4294967296LL), tonumber(nanoseconds % 4294967296LL),
        count) .. rest
end

function done(summary, latency)
    local errors = summary.errors
    print(string.format(
        '{"requests":%d,"seconds":%.4f,"acceptedMilliseconds":%.4f,"acceptedP99Milliseconds":%.4f,' ..
        '"errors":%d}',
        summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
        latency:percentile(99) / 1e3,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
