local actions = {}

local function action(name, icon)
  actions[name] = {["disabled"] = true, ["iconClass"] = "fa fa-fw " .. icon}
end

action("stop", "fa-stop")
action("drain", "fa-tint")
action("resume", "fa-play")
action("savepoint", "fa-save")
action("restart", "fa-redo")

local phase = ""
if obj.status ~= nil and obj.status.phase ~= nil then
  phase = obj.status.phase
end
local state = obj.spec.state or "Running"
-- These are ends: the job does not run again.
local ended = state == "Drained" or phase == "Drained" or phase == "Finished"

if not ended then
  actions["stop"]["disabled"] = state == "Stopped"
  actions["drain"]["disabled"] = false
  actions["resume"]["disabled"] = state == "Running"
end
actions["savepoint"]["disabled"] = phase ~= "Running"
actions["restart"]["disabled"] = phase ~= "Failed"

return actions
