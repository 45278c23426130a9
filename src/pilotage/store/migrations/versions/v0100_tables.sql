CREATE TABLE iterations (
  step VARCHAR NOT NULL,
  time {float} NOT NULL,
  PRIMARY KEY (step)
);

CREATE TABLE meanings (
  id {serial} NOT NULL,
  kind VARCHAR NOT NULL,
  source VARCHAR DEFAULT '' NOT NULL,
  target VARCHAR NOT NULL,
  cause VARCHAR DEFAULT '' NOT NULL,
  actor VARCHAR DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
);

CREATE UNIQUE INDEX meanings_once ON meanings (kind, source, target, cause, actor);

CREATE TABLE pilots (
  id {number} NOT NULL,
  queue VARCHAR NOT NULL,
  requirements VARCHAR DEFAULT '' NOT NULL,
  kind VARCHAR NOT NULL,
  owner VARCHAR DEFAULT '' NOT NULL,
  vo VARCHAR DEFAULT '' NOT NULL,
  "group" VARCHAR DEFAULT '' NOT NULL,
  vo_role VARCHAR DEFAULT '' NOT NULL,
  state VARCHAR NOT NULL,
  attempt INTEGER DEFAULT '1' NOT NULL,
  created {float} NOT NULL,
  since {float} NOT NULL,
  error VARCHAR DEFAULT '' NOT NULL,
  cores INTEGER NOT NULL,
  memory {float} NOT NULL,
  walltime {float} NOT NULL,
  reference VARCHAR DEFAULT '' NOT NULL,
  heartbeat {float},
  matched INTEGER NOT NULL,
  ended {float},
  containment VARCHAR DEFAULT '' NOT NULL,
  node VARCHAR DEFAULT '' NOT NULL,
  history VARCHAR DEFAULT '' NOT NULL,
  site VARCHAR DEFAULT '' NOT NULL,
  element VARCHAR DEFAULT '' NOT NULL,
  broker VARCHAR DEFAULT '' NOT NULL,
  submit_pool VARCHAR DEFAULT '' NOT NULL,
  reason VARCHAR DEFAULT '' NOT NULL,
  lacks VARCHAR DEFAULT '' NOT NULL,
  waits VARCHAR DEFAULT '' NOT NULL,
  slots INTEGER DEFAULT '1' NOT NULL,
  PRIMARY KEY (id)
);

CREATE INDEX pilots_by_state ON pilots (state, since, id);

CREATE INDEX pilots_by_queue ON pilots (queue, id);

CREATE TABLE task_queues (
  queue VARCHAR NOT NULL,
  requirements VARCHAR NOT NULL,
  priority INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (queue, requirements, priority)
);

CREATE TABLE activations (
  queue VARCHAR NOT NULL,
  number BIGINT NOT NULL,
  PRIMARY KEY (queue)
);

CREATE TABLE counters (
  counter VARCHAR NOT NULL,
  first VARCHAR NOT NULL,
  second VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (counter, first, second, state)
);

CREATE TABLE job_deltas (
  queue VARCHAR NOT NULL,
  share VARCHAR NOT NULL,
  task {number} NOT NULL,
  requirements VARCHAR NOT NULL,
  priority INTEGER NOT NULL,
  source VARCHAR NOT NULL,
  target VARCHAR NOT NULL,
  count INTEGER NOT NULL
);

CREATE TABLE advertisements (
  site VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  time {float} NOT NULL,
  source VARCHAR NOT NULL,
  attributes VARCHAR NOT NULL,
  requirements VARCHAR DEFAULT '' NOT NULL,
  pilots INTEGER NOT NULL,
  submitting INTEGER NOT NULL,
  PRIMARY KEY (site)
);

CREATE TABLE failed_deliveries (
  transfer {number} NOT NULL,
  job {number} NOT NULL,
  attempt INTEGER NOT NULL,
  task {number} NOT NULL,
  node VARCHAR NOT NULL,
  file VARCHAR NOT NULL,
  source VARCHAR NOT NULL,
  destination VARCHAR NOT NULL,
  time {float} NOT NULL,
  error VARCHAR NOT NULL,
  PRIMARY KEY (transfer, job, attempt)
);

CREATE TABLE storage_spaces (
  storage VARCHAR NOT NULL,
  url VARCHAR NOT NULL,
  asked {float} NOT NULL,
  told {float},
  free {float},
  total {float},
  problem VARCHAR DEFAULT '' NOT NULL,
  PRIMARY KEY (storage)
);

CREATE TABLE tasks (
  id {number} NOT NULL,
  name VARCHAR DEFAULT '' NOT NULL,
  share VARCHAR DEFAULT '' NOT NULL,
  priority INTEGER NOT NULL,
  owner VARCHAR DEFAULT '' NOT NULL,
  vo VARCHAR DEFAULT '' NOT NULL,
  "group" VARCHAR DEFAULT '' NOT NULL,
  vo_role VARCHAR DEFAULT '' NOT NULL,
  state VARCHAR NOT NULL,
  attempt INTEGER DEFAULT '1' NOT NULL,
  created {float} NOT NULL,
  since {float} NOT NULL,
  error VARCHAR DEFAULT '' NOT NULL,
  spec TEXT NOT NULL,
  measured TEXT,
  submission VARCHAR,
  planned_jobs INTEGER DEFAULT '0' NOT NULL,
  input_files INTEGER DEFAULT '0' NOT NULL,
  history VARCHAR DEFAULT '' NOT NULL,
  lease_end {float},
  datasets VARCHAR DEFAULT '' NOT NULL,
  output_dataset VARCHAR,
  PRIMARY KEY (id)
);

CREATE INDEX tasks_by_owner ON tasks (vo, owner, id);

CREATE INDEX tasks_live ON tasks (vo, owner, planned_jobs, input_files, state) WHERE state IN ('registered', 'scouting', 'splitting', 'running', 'merging');

CREATE INDEX tasks_by_output_dataset ON tasks (output_dataset) WHERE output_dataset IS NOT NULL;

CREATE UNIQUE INDEX tasks_by_submission ON tasks (submission);

CREATE INDEX tasks_by_state ON tasks (state, id);

CREATE INDEX tasks_by_lease ON tasks (lease_end) WHERE lease_end IS NOT NULL;

CREATE TABLE transfers (
  id {number} NOT NULL,
  file VARCHAR NOT NULL,
  source VARCHAR NOT NULL,
  source_path VARCHAR DEFAULT '' NOT NULL,
  destination VARCHAR NOT NULL,
  direction VARCHAR NOT NULL,
  share VARCHAR DEFAULT '' NOT NULL,
  priority INTEGER NOT NULL,
  state VARCHAR NOT NULL,
  attempt INTEGER DEFAULT '1' NOT NULL,
  created {float} NOT NULL,
  since {float} NOT NULL,
  error VARCHAR DEFAULT '' NOT NULL,
  emergency BOOLEAN NOT NULL,
  wake_at {float},
  heartbeat {float},
  started {float},
  ended {float},
  history VARCHAR DEFAULT '' NOT NULL,
  share_priority INTEGER DEFAULT '0' NOT NULL,
  server VARCHAR DEFAULT '' NOT NULL,
  size_class VARCHAR DEFAULT '' NOT NULL,
  way VARCHAR DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
);

CREATE UNIQUE INDEX transfers_once ON transfers (file, destination) WHERE state IN ('queued', 'preparing', 'prepared', 'delivering', 'delivered');

CREATE INDEX transfers_by_file ON transfers (file, state);

CREATE INDEX transfers_longest_queued ON transfers (share, direction, priority, since, id) WHERE state = 'queued';

CREATE INDEX transfers_to_start ON transfers (share, direction, priority DESC, id) WHERE state = 'queued';

CREATE INDEX transfers_by_state ON transfers (state, since, id);

CREATE TABLE files (
  name VARCHAR NOT NULL,
  size BIGINT NOT NULL,
  checksum VARCHAR NOT NULL,
  task {number},
  job {number},
  PRIMARY KEY (name)
);

CREATE INDEX files_by_task ON files (task, name) WHERE task IS NOT NULL;

CREATE INDEX files_by_character ON files (name COLLATE "C");

CREATE INDEX files_by_job ON files (job) WHERE job IS NOT NULL;

CREATE TABLE queue_reports (
  queue VARCHAR NOT NULL,
  last_pilot {float},
  last_start {float},
  mean_run {float},
  PRIMARY KEY (queue)
);

CREATE TABLE publications (
  id {number} NOT NULL,
  task {number} NOT NULL,
  catalogue VARCHAR NOT NULL,
  dataset VARCHAR NOT NULL,
  file VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  attempt INTEGER DEFAULT '1' NOT NULL,
  created {float} NOT NULL,
  since {float} NOT NULL,
  error VARCHAR DEFAULT '' NOT NULL,
  asked {float} NOT NULL,
  wake_at {float} NOT NULL,
  server VARCHAR DEFAULT '' NOT NULL,
  history VARCHAR DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
);

CREATE INDEX publications_by_task ON publications (task, state, id);

CREATE INDEX publications_under_way ON publications (id) WHERE state = 'publishing';

CREATE INDEX publications_by_state ON publications (state, since, id);

CREATE INDEX publications_due ON publications (catalogue, wake_at, id) WHERE state = 'waiting';

CREATE INDEX publications_by_file ON publications (file);

CREATE TABLE candidates (
  choice {number} NOT NULL,
  queue VARCHAR NOT NULL,
  binding VARCHAR NOT NULL,
  placed BOOLEAN NOT NULL,
  PRIMARY KEY (choice, queue)
);

CREATE INDEX candidates_placed ON candidates (choice, queue) WHERE placed IS {true};

CREATE INDEX candidates_by_queue ON candidates (queue, choice);

CREATE TABLE decisions (
  id {number} NOT NULL,
  task {number} NOT NULL,
  step VARCHAR NOT NULL,
  time {float} NOT NULL,
  actor VARCHAR DEFAULT '' NOT NULL,
  moved BOOLEAN NOT NULL,
  facts {number} NOT NULL,
  document {bytes} NOT NULL,
  PRIMARY KEY (id)
);

CREATE INDEX decisions_unmoved ON decisions (task) WHERE moved IS {false};

CREATE INDEX decisions_by_task ON decisions (task, id);

CREATE TABLE decision_facts (
  id {number} NOT NULL,
  last {number} NOT NULL,
  document {bytes} NOT NULL,
  PRIMARY KEY (id)
);

CREATE TABLE federations (
  version INTEGER NOT NULL,
  time {float} NOT NULL,
  actor VARCHAR DEFAULT '' NOT NULL,
  document TEXT NOT NULL,
  file VARCHAR DEFAULT '' NOT NULL,
  digest VARCHAR DEFAULT '' NOT NULL,
  PRIMARY KEY (version)
);

CREATE TABLE logs (
  kind VARCHAR NOT NULL,
  record {number} NOT NULL,
  attempt INTEGER NOT NULL,
  stream VARCHAR NOT NULL,
  vo VARCHAR DEFAULT '' NOT NULL,
  owner VARCHAR DEFAULT '' NOT NULL,
  time {float} NOT NULL,
  size BIGINT NOT NULL,
  head INTEGER NOT NULL,
  stored INTEGER NOT NULL,
  data {bytes} NOT NULL,
  PRIMARY KEY (kind, record, attempt, stream)
);

CREATE INDEX logs_by_owner ON logs (vo, owner, time, stored);

CREATE INDEX logs_by_time ON logs (time);

CREATE TABLE log_readers (
  kind VARCHAR NOT NULL,
  record {number} NOT NULL,
  until {float} NOT NULL,
  PRIMARY KEY (kind, record)
);

CREATE TABLE numbers (
  kind VARCHAR NOT NULL,
  last {number} NOT NULL,
  PRIMARY KEY (kind)
);

CREATE TABLE set_aside (
  step VARCHAR NOT NULL,
  subject VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  error VARCHAR NOT NULL,
  among INTEGER NOT NULL,
  since {float} NOT NULL,
  times INTEGER NOT NULL,
  retry_at {float} NOT NULL,
  PRIMARY KEY (step, subject, name)
);

CREATE TABLE tokens (
  hash VARCHAR NOT NULL,
  role VARCHAR NOT NULL,
  owner VARCHAR DEFAULT '' NOT NULL,
  vo VARCHAR DEFAULT '' NOT NULL,
  "group" VARCHAR DEFAULT '' NOT NULL,
  vo_role VARCHAR DEFAULT '' NOT NULL,
  pilot {number},
  created {float} NOT NULL,
  expires {float},
  nonce VARCHAR,
  PRIMARY KEY (hash)
);

CREATE INDEX tokens_by_pilot ON tokens (pilot);

CREATE INDEX tokens_by_expiry ON tokens (expires);

CREATE TABLE borrowings (
  job {number} NOT NULL,
  attempt INTEGER NOT NULL,
  site VARCHAR NOT NULL,
  time {float} NOT NULL,
  reads BOOLEAN NOT NULL,
  document VARCHAR NOT NULL,
  PRIMARY KEY (job, attempt)
);

CREATE INDEX borrowings_by_site ON borrowings (site, time) WHERE reads IS {true};

CREATE TABLE link_hours (
  hour INTEGER NOT NULL,
  source VARCHAR NOT NULL,
  destination VARCHAR NOT NULL,
  megabytes {float} NOT NULL,
  seconds {float} NOT NULL,
  PRIMARY KEY (hour, source, destination)
);

CREATE TABLE dataset_versions (
  dataset VARCHAR NOT NULL,
  version INTEGER NOT NULL,
  created {float} NOT NULL,
  author VARCHAR DEFAULT '' NOT NULL,
  files INTEGER NOT NULL,
  size BIGINT NOT NULL,
  PRIMARY KEY (dataset, version)
);

CREATE TABLE dataset_files (
  dataset VARCHAR NOT NULL,
  file VARCHAR NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER,
  size BIGINT NOT NULL,
  checksum VARCHAR NOT NULL,
  PRIMARY KEY (dataset, file, first)
);

CREATE TABLE failures (
  job {number} NOT NULL,
  attempt INTEGER NOT NULL,
  task {number} NOT NULL,
  owner VARCHAR DEFAULT '' NOT NULL,
  vo VARCHAR DEFAULT '' NOT NULL,
  queue VARCHAR NOT NULL,
  node VARCHAR NOT NULL,
  pilot {number} NOT NULL,
  pilots INTEGER NOT NULL,
  time {float} NOT NULL,
  lasted {float} NOT NULL,
  exit_code INTEGER,
  ending VARCHAR DEFAULT '' NOT NULL,
  against VARCHAR NOT NULL,
  others VARCHAR DEFAULT 'queue' NOT NULL,
  PRIMARY KEY (job, attempt)
);

CREATE INDEX failures_by_place ON failures (queue, vo, owner, node, time);

CREATE INDEX failures_by_task ON failures (task);

CREATE TABLE jobs (
  id {number} NOT NULL,
  task {number} NOT NULL,
  kind VARCHAR NOT NULL,
  share VARCHAR DEFAULT '' NOT NULL,
  priority INTEGER NOT NULL,
  requirements VARCHAR DEFAULT '' NOT NULL,
  state VARCHAR NOT NULL,
  attempt INTEGER DEFAULT '1' NOT NULL,
  created {float} NOT NULL,
  since {float} NOT NULL,
  error VARCHAR DEFAULT '' NOT NULL,
  queue VARCHAR DEFAULT '' NOT NULL,
  pilot {number},
  events INTEGER NOT NULL,
  input_count INTEGER NOT NULL,
  wake_at {float},
  exit_code INTEGER,
  cpu_seconds {float},
  wall_seconds {float},
  max_rss {float},
  max_workdir {float},
  started {float},
  ended {float},
  disk_io {float},
  history VARCHAR DEFAULT '' NOT NULL,
  choice {number},
  PRIMARY KEY (id),
  FOREIGN KEY(task) REFERENCES tasks (id)
);

CREATE INDEX jobs_to_match ON jobs (queue, requirements, priority DESC, id) WHERE state = 'activated';

CREATE INDEX jobs_at_pilots ON jobs (pilot, id, attempt) WHERE state IN ('sent', 'starting', 'running');

CREATE INDEX jobs_to_borrow ON jobs (choice, queue, priority, id DESC) WHERE choice IS NOT NULL AND state IN ('assigned', 'activated');

CREATE INDEX jobs_urgent ON jobs (state, since, id) WHERE priority >= 800;

CREATE INDEX jobs_by_task ON jobs (task, state, id);

CREATE INDEX jobs_by_disk_io ON jobs (state, queue, disk_io) WHERE state = 'running' AND disk_io IS NOT NULL;

CREATE INDEX jobs_by_state ON jobs (state, since, id) WHERE state IN ('throttled', 'pending', 'defined', 'assigned', 'activated', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging');

CREATE INDEX jobs_to_broker ON jobs (state, task, id) WHERE state = 'defined';

CREATE INDEX jobs_to_wake ON jobs (state, wake_at, id) WHERE state = 'pending';

CREATE INDEX jobs_to_lift ON jobs (state, task, id) WHERE state = 'pending';

CREATE TABLE replicas (
  file VARCHAR NOT NULL,
  storage VARCHAR NOT NULL,
  path VARCHAR DEFAULT '' NOT NULL,
  since {float},
  PRIMARY KEY (file, storage),
  FOREIGN KEY(file) REFERENCES files (name)
);

CREATE INDEX replicas_copies ON replicas (since, file) WHERE substr(path, 1, 8) = '.copies/';

CREATE TABLE job_inputs (
  job {number} NOT NULL,
  position INTEGER NOT NULL,
  file VARCHAR NOT NULL,
  PRIMARY KEY (job, position),
  FOREIGN KEY(job) REFERENCES jobs (id)
);

CREATE INDEX job_inputs_by_file ON job_inputs (file, job);
