-- SPDX-License-Identifier: Apache-2.0
--
-- What wrk posts to messages:send: one message after another to the next of some targets, no two alike.
-- Rests on wrk, one thread of it.
--
--     wrk -t 1 … -s gateway.lua http://HOST:PORT -- PATH KEY TARGETS NUMBER PAYLOAD
--
-- KEY is a file with a server key; TARGETS is one with a line for each target, as JSON says it:
-- "token":"…" or "topic":"…". NUMBER is the run's, so that its messages are none of another run's.
-- PAYLOAD is the bytes of the data entry.

local requests, rest, number, count = {}, "", 0, 0

function init(arguments)
    local path, key, targets, run, payload = unpack(arguments)
    key = io.open(key):read("*l")
    number = tonumber(run)
    -- 16 digits, which `request` puts between, come before.
    rest = string.rep("x", tonumber(payload) - 16) .. '"}}}'
    for target in io.lines(targets) do
        local body = '{"message":{' .. target .. ',"data":{"d":"'
        requests[#requests + 1] = table.concat({
            "POST " .. path .. " HTTP/1.1",
            "Host: " .. wrk.host .. ":" .. wrk.port,
            "Authorization: Bearer " .. key,
            "Content-Type: application/json",
            "Content-Length: " .. #body + 16 + #rest,
            "", body}, "\r\n")
    end
end

function request()
    count = count + 1
    return requests[count % #requests + 1] .. string.format("%08x%08x", number, count) .. rest
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
