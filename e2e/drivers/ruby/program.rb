# Carries out the scenario with Ruby's mysql2 and prints a JSON line for each step:
# DRIVER SCENARIO.

require 'json'
require 'mysql2'
require 'zlib'

LONG = 200
SCHEMA = ENV.fetch('DRIVER_SCHEMA')

def filled(text, task)
  text = text.gsub('{schema}', SCHEMA)
  task ? text.gsub('{nn}', format('%02d', task)).gsub('{n}', task.to_s) : text
end

def parameters(given, task = nil)
  given.map { |value| parameter(value, task) }
end

def parameter(value, task)
  return filled(value, task) if value.is_a?(String)
  return value unless value.is_a?(Hash)

  kind, content = value.first
  case kind
  when 'long' then Integer(content)
  when 'bytes' then [content].pack('H*')
  when 'repeat' then content[0] * content[1]
  when 'repeat_bytes' then [content[0]].pack('H*') * content[1]
  when 'datetime' then Time.gm(*content.scan(/\d+/).map(&:to_i))
  when 'task' then task
  else content # Decimals, dates and times go as text.
  end
end

# A value as text that tells its type; long ones by length and checksum.
def show(value)
  text = value.is_a?(BigDecimal) ? value.to_s('F') : value.to_s
  text = if text.bytesize > LONG then summary(text)
         elsif text.dup.force_encoding('UTF-8').valid_encoding? then text.dup.force_encoding('UTF-8')
         else text.unpack1('H*')
         end
  "#{value.class}:#{text}"
end

def summary(data)
  "#{data.bytesize} bytes, crc #{Zlib.crc32(data).to_s(16)}"
end

def show_error(error)
  return { failure: "#{error.class} #{error.message}" } unless error.is_a?(Mysql2::Error)

  { error: error.error_number, state: error.sql_state, message: error.message }
end

# One connection, and the steps of the scenario on it.
class Session
  attr_reader :raw

  def initialize(prepared)
    @prepared = prepared
    # MariaDB's library knows no `ssl_mode`: it encrypts when it is told anything of TLS.
    tls = ENV.fetch('DRIVER_TLS') == 'on' ? { sslcipher: 'HIGH' } : {}
    @raw = Mysql2::Client.new(
      host: ENV.fetch('DRIVER_HOST'), port: ENV.fetch('DRIVER_PORT').to_i,
      username: ENV.fetch('DRIVER_USER'), password: ENV.fetch('DRIVER_PASSWORD'),
      database: SCHEMA, encoding: 'utf8mb4', flags: Mysql2::Client::MULTI_STATEMENTS, as: :array,
      **tls
    )
  end

  def run(sql, params = nil)
    return outcome(@raw.query(sql)) unless params
    return outcome(@raw.query(interpolated(sql, params))) unless @prepared

    prepared = @raw.prepare(sql)
    executed(prepared, params).tap { prepared.close }
  end

  # Without prepared statements, values go into the text.
  def interpolated(sql, params)
    rest = params.dup
    sql.gsub('?') do
      value = rest.shift
      case value
      when nil then 'NULL'
      when Numeric then value.to_s
      when Time then "'#{value.strftime('%F %T.%6N')}'"
      else "'#{@raw.escape(value.dup.force_encoding('UTF-8'))}'"
      end
    end
  end

  def executed(prepared, params)
    result = prepared.execute(*params, as: :array)
    return table(result) if result

    { affected: prepared.affected_rows, id: prepared.last_id }
  end

  def outcome(result)
    return table(result) if result

    { affected: @raw.affected_rows, id: @raw.last_id, warnings: @raw.warning_count, info: @raw.query_info_string }
  end

  def table(result)
    { columns: result.fields, rows: result.map { |row| row.map { |value| show(value) } } }
  end

  def batch(sql, rows)
    prepared = @raw.prepare(sql)
    rows.sum { |row| executed(prepared, row)[:affected] }
  ensure
    prepared&.close
  end

  def stream(sql, take)
    seen = []
    # The driver ends a stream when an earlier result is collected meanwhile, directly too.
    GC.disable
    @raw.query(sql, stream: true, cache_rows: false).each do |row|
      # A stream can't be given up: what is left has to be read.
      seen << row.map { |value| show(value) }.join(',') if take.nil? || seen.size < take
    end
    [seen.size, summary(seen.join("\n"))]
  ensure
    GC.enable
  end

  def multi(sql)
    results = [outcome(@raw.query(sql))]
    results << outcome(@raw.store_result) while @raw.next_result
    results
  rescue Mysql2::Error => e
    (results || []) << show_error(e)
  end

  def prepare(sql)
    @prepared ? @raw.prepare(sql) : sql
  end

  def execute(stmt, params)
    stmt.is_a?(String) ? run(stmt, params) : executed(stmt, params)
  end

  def warnings(sql)
    run(sql)
    run('SHOW WARNINGS')
  end

  def ping = @raw.ping
  def begin = run('BEGIN')
  def commit = run('COMMIT')
  def rollback = run('ROLLBACK')
  def autocommit(on) = run("SET autocommit = #{on}")
  def isolation(level) = run("SET SESSION TRANSACTION ISOLATION LEVEL #{level}")
  def close = @raw.close

  def schema(name)
    @raw.select_db(name)
    name
  end

  def connection_id
    { 'as the server says' => @raw.query('SELECT CONNECTION_ID()').first[0] == @raw.thread_id }
  end
end

# The connections and prepared statements of a run, by their names.
class Program
  def initialize(driver)
    @prepared = driver == 'mysql2-prepared'
    @sessions = {}
    @stmts = {}
  end

  def attempt(step, session = nil, task = nil)
    step(step, session, task)
  rescue StandardError => e
    show_error(e)
  end

  private

  def step(step, session, task)
    case step['op']
    when 'open'
      @sessions[step['conn']] = Session.new(@prepared)
      return 'open'
    when 'pool' then return pool(step)
    when 'execute'
      owner, stmt = @stmts.fetch(step['stmt'])
      return owner.execute(stmt, parameters(step['params']))
    when 'close_stmt'
      _, stmt = @stmts.delete(step['stmt'])
      stmt.close unless stmt.is_a?(String)
      return 'closed'
    end
    on_session(session || @sessions.fetch(step['conn']), step, task)
  end

  def on_session(session, step, task)
    sql = filled(step.fetch('sql', ''), task)
    case step['op']
    when 'query', 'exec'
      result = session.run(sql, step['params'] && parameters(step['params'], task))
      step['hide_id'] ? result.merge(id: 'hidden') : result
    when 'prepare'
      @stmts[step['stmt']] = [session, session.prepare(sql)]
      'prepared'
    when 'batch' then session.batch(sql, batch_rows(step))
    when 'stream' then session.stream(sql, step['take'])
    when 'multi', 'warnings' then session.public_send(step['op'], sql)
    when 'autocommit' then session.autocommit(step['on'])
    when 'isolation' then session.isolation(step['level'])
    when 'schema' then session.schema(step['to'])
    else session.respond_to?(step['op']) ? session.public_send(step['op']) : 'unsupported'
    end
  end

  # Every task checks a connection out, carries out its steps, and gives it back.
  def pool(step)
    free = Queue.new
    step['size'].times { free << Session.new(@prepared) }
    threads = (1..step['tasks']).map do |task|
      Thread.new do
        session = free.pop
        lines = step['steps'].map { |inner| [inner['name'], attempt(inner, session, task)] }
        free << session
        lines
      end
    end
    threads.map(&:value).tap { step['size'].times { free.pop.close } }
  end

  def batch_rows(step)
    return (0...step['count']).map { |number| ["row #{number}", number] } if step['count']

    step['rows'].map { |row| parameters(row) }
  end
end

driver, scenario = ARGV
program = Program.new(driver)
JSON.parse(File.read(scenario, encoding: 'UTF-8')).each do |step|
  puts JSON.generate({ step: step['name'], result: program.attempt(step) })
end
