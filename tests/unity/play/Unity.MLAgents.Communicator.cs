using System;
using System.Collections.Generic;
using System.Linq;
using Unity.MLAgents.Sensors;

namespace Unity.MLAgents
{
    /// <summary>What an agent tells its policy: an observation, and whether its episode has ended with it.</summary>
    internal sealed class AgentMessage
    {
        public AgentMessage(int number, bool done, bool interrupted, float reward, IEnumerable<ISensor> sensors)
        {
            Number = number;
            Done = done;
            Interrupted = interrupted;
            Reward = reward;
            Observations = sensors.Select(sensor => (sensor.GetName(), sensor.Write())).ToArray();
        }

        /// <summary>The agent's number.</summary>
        public int Number { get; }

        /// <summary>The episode has ended.</summary>
        public bool Done { get; }

        /// <summary>It was cut (maxStepReached).</summary>
        public bool Interrupted { get; }

        /// <summary>Earned since the last message.</summary>
        public float Reward { get; }

        /// <summary>Name and values of each sensor, in the order of the wire.</summary>
        public (string Name, float[] Values)[] Observations { get; }

        /// <summary>The values of a sensor.</summary>
        public float[] Of(string sensor)
        {
            return Observations.Single(each => each.Name == sensor).Values;
        }
    }

    /// <summary>
    /// A connected trainer, after ML-Agents' RpcCommunicator: messages are gathered, and the first agent that decides
    /// in a step exchanges all of them for actions. What an agent says after that, such as its end, goes with the next
    /// exchange. A reset comes in place of actions and takes effect in the middle of the step. Parameters come first.
    /// </summary>
    internal sealed class Communicator
    {
        private readonly List<AgentMessage> _waiting = new List<AgentMessage>();
        private readonly Dictionary<int, float[]> _actions = new Dictionary<int, float[]>();
        private readonly Queue<(string, float)> _parameters = new Queue<(string, float)>();

        /// <summary>A trainer that decides so.</summary>
        /// <param name="decide">Gets an agent's message; gives one number for each action.</param>
        public Communicator(Func<AgentMessage, float[]> decide)
        {
            Decide = decide;
        }

        /// <summary>How the trainer decides.</summary>
        public Func<AgentMessage, float[]> Decide { get; set; }

        /// <summary>What agents said, in order, with what waits for the next exchange.</summary>
        public List<AgentMessage> Said { get; } = new List<AgentMessage>();

        /// <summary>The messages of each exchange.</summary>
        public List<AgentMessage[]> Exchanges { get; } = new List<AgentMessage[]>();

        /// <summary>The next exchange resets instead of acting.</summary>
        public bool ResetNext { get; set; }

        public Action ResetReceived { get; set; }

        public EnvironmentParameters Parameters { get; set; }

        /// <summary>Messages that end an episode.</summary>
        public IEnumerable<AgentMessage> Ends => Said.Where(message => message.Done);

        /// <summary>Sends a parameter, with the next exchange.</summary>
        public void Send(string name, float value)
        {
            _parameters.Enqueue((name, value));
        }

        public void Put(AgentMessage message)
        {
            Said.Add(message);
            _waiting.Add(message);
            _actions.Remove(message.Number);
        }

        /// <summary>Exchanges what is there; once a step, since it is gone then.</summary>
        public void DecideBatch()
        {
            if (_waiting.Count == 0)
            {
                return;
            }
            AgentMessage[] batch = _waiting.ToArray();
            _waiting.Clear();
            Exchanges.Add(batch);
            Receive();
            if (ResetNext)
            {
                ResetNext = false;
                ResetReceived();
                return;
            }
            foreach (AgentMessage message in batch.Where(message => !message.Done))
            {
                if (!batch.Any(other => other.Done && other.Number == message.Number))
                {
                    _actions[message.Number] = Decide(message);
                }
            }
        }

        /// <summary>Takes the parameters that were sent.</summary>
        public void Receive()
        {
            while (_parameters.Count > 0)
            {
                (string name, float value) = _parameters.Dequeue();
                Parameters.Receive(name, value);
            }
        }

        /// <summary>An agent's last action; null: it has none.</summary>
        public float[] ActionOf(int number)
        {
            return _actions.TryGetValue(number, out float[] action) ? action : null;
        }
    }

    /// <summary>Numbers by name; a listener hears of each that arrives (EnvironmentParametersChannel).</summary>
    public sealed class EnvironmentParameters
    {
        private readonly Dictionary<string, float> _values = new Dictionary<string, float>();
        private readonly Dictionary<string, Action<float>> _listeners = new Dictionary<string, Action<float>>();

        /// <summary>Listeners that are no null.</summary>
        internal int Listeners => _listeners.Values.Count(listener => listener != null);

        /// <summary>A number; where it was never sent, the other one.</summary>
        public float GetWithDefault(string key, float defaultValue)
        {
            return _values.TryGetValue(key, out float value) ? value : defaultValue;
        }

        /// <summary>Tells a listener, in place of the one before; null: nobody.</summary>
        public void RegisterCallback(string key, Action<float> action)
        {
            _listeners[key] = action;
        }

        internal void Receive(string key, float value)
        {
            _values[key] = value;
            if (_listeners.TryGetValue(key, out Action<float> listener))
            {
                listener?.Invoke(value);
            }
        }
    }

    /// <summary>How the trainer puts values together.</summary>
    public enum StatAggregationMethod
    {
        /// <summary>Their mean.</summary>
        Average = 0,

        /// <summary>The last one.</summary>
        MostRecent = 1,
    }

    /// <summary>Keeps statistics.</summary>
    public sealed class StatsRecorder
    {
        /// <summary>What was added, in order.</summary>
        internal List<(string Key, float Value, StatAggregationMethod Method)> Added { get; } =
            new List<(string Key, float Value, StatAggregationMethod Method)>();

        /// <summary>Adds a value.</summary>
        public void Add(
            string key, float value, StatAggregationMethod aggregationMethod = StatAggregationMethod.Average)
        {
            Added.Add((key, value, aggregationMethod));
        }
    }
}
