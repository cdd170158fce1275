-- Slurm's job_submit/lua: says why a job script's burst buffer is refused. Slurm 22.05 itself gives no reason for a wrong pool or size.
-- Lies beside slurm.conf, which has JobSubmitPlugins=lua; a site that has a job_submit.lua adds this to its own.
local PROGRAM = "/opt/bbflow/bin/bbflow-slurm"
local CONFIG = "/etc/slurm/bbflow.yml"

function slurm_job_submit(job, partitions, uid)
  if job.script == nil or not job.script:find("#BB_LUA", 1, true) then
    return slurm.SUCCESS
  end
  local name = os.tmpname()
  local file = io.open(name, "w")
  file:write(job.script)
  file:close()
  -- Lua 5.1 doesn't tell how a program ended: the shell does, in a last line
  local pipe = io.popen("'" .. PROGRAM .. "' --config '" .. CONFIG .. "' check " .. name .. " 2>&1; echo $?", "r")
  local said, code = pipe:read("*a"):match("^(.-)%s*(%d+)%s*$")
  pipe:close()
  os.remove(name)
  if code == "0" then
    return slurm.SUCCESS
  end
  slurm.log_user("%s", said)
  return slurm.ERROR
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
