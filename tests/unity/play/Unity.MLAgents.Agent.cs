using System;
using System.Collections.Generic;
using Unity.MLAgents.Actuators;
using Unity.MLAgents.Policies;
using Unity.MLAgents.Sensors;
using UnityEngine;

namespace Unity.MLAgents
{
    /// <summary>
    /// An agent with the rules of ML-Agents' class of this name, as of release 3 and 4. Enabling it (LazyInitialize)
    /// gives it a new number and puts its listeners on the academy; disabling it tells the trainer that it is done. A
    /// request for a decision outlives enabling; being done drops it. After it was told to be done, being done again is
    /// nothing until it has sent an observation (NotifyAgentDone).
    /// </summary>
    [RequireComponent(typeof(BehaviorParameters))]
    public class Agent : MonoBehaviour
    {
        /// <summary>Steps of an episode; 0: no end.</summary>
        public int MaxStep;

        private static int _numbers;

        private readonly RecursionChecker _collecting = new RecursionChecker("CollectObservations");
        private readonly RecursionChecker _beginning = new RecursionChecker("OnEpisodeBegin");
        private List<ISensor> _sensors = new List<ISensor>();
        private VectorSensor _own;
        private IPolicy _brain;
        private float[] _stored = Array.Empty<float>();
        private int _number;
        private float _reward;
        private bool _done;
        private bool _decisionRequested;
        private bool _actionRequested;

        /// <summary>Steps of the running episode.</summary>
        public int StepCount { get; private set; }

        /// <summary>Its number for the trainer, a new one each time it is enabled.</summary>
        internal int Number => _number;

        /// <summary>What was earned and is not sent yet.</summary>
        internal float Reward => _reward;

        /// <summary>Sets what was earned since the last observation.</summary>
        public void SetReward(float reward)
        {
            if (float.IsNaN(reward) || float.IsInfinity(reward))
            {
                throw new ArgumentException("NaN or infinity passed to SetReward.");
            }
            _reward = reward;
        }

        /// <summary>Asks for a decision, and an action, in the running or the next step.</summary>
        public void RequestDecision()
        {
            _decisionRequested = true;
            RequestAction();
        }

        /// <summary>Asks for an action.</summary>
        public void RequestAction()
        {
            _actionRequested = true;
        }

        /// <summary>The episode ends by the game's rules.</summary>
        public void EndEpisode()
        {
            NotifyDone(false);
            Restart();
        }

        /// <summary>The episode is cut.</summary>
        public void EpisodeInterrupted()
        {
            NotifyDone(true);
            Restart();
        }

        /// <summary>An episode begins.</summary>
        public virtual void OnEpisodeBegin()
        {
        }

        /// <summary>Writes observations.</summary>
        public virtual void CollectObservations(VectorSensor sensor)
        {
        }

        /// <summary>Acts.</summary>
        public virtual void OnActionReceived(ActionBuffers actions)
        {
        }

        /// <summary>Decides by itself.</summary>
        public virtual void Heuristic(in ActionBuffers actionsOut)
        {
        }

        /// <summary>
        /// Sets everything up. As in ML-Agents an agent whose model does not load is left half made: it listens, but
        /// has neither brain nor sensors.
        /// </summary>
        protected virtual void OnEnable()
        {
            _number = _numbers++;
            _done = false;
            _brain = null;
            _own = null;
            _sensors = new List<ISensor>();
            Listen(Academy.Instance);
            var behavior = GetComponent<BehaviorParameters>();
            _stored = new float[behavior.BrainParameters.ActionSpec.NumContinuousActions];
            _brain = behavior.MakePolicy(this);
            MakeSensors(behavior.BrainParameters.VectorObservationSize);
            if (Academy.Instance.TotalStepCount != 0)
            {
                Begin(); // before that, the first reset of the academy does it
            }
        }

        /// <summary>Tells the trainer that it is done, unless the game is ending.</summary>
        protected virtual void OnDisable()
        {
            if (Academy.IsInitialized)
            {
                Unlisten(Academy.Instance);
                NotifyDone(false);
            }
        }

        private void Listen(Academy academy)
        {
            academy.AgentIncrementStep += IncrementStep;
            academy.AgentSendState += SendInfo;
            academy.DecideAction += DecideAction;
            academy.AgentAct += Act;
            academy.AgentForceReset += Restart;
        }

        private void Unlisten(Academy academy)
        {
            academy.AgentIncrementStep -= IncrementStep;
            academy.AgentSendState -= SendInfo;
            academy.DecideAction -= DecideAction;
            academy.AgentAct -= Act;
            academy.AgentForceReset -= Restart;
        }

        private void MakeSensors(int size)
        {
            foreach (Component part in gameObject.Parts)
            {
                if (part is SensorComponent component)
                {
                    _sensors.AddRange(component.CreateSensors());
                }
            }
            _own = new VectorSensor(size);
            _sensors.Add(_own);
            SensorNames.Sort(_sensors);
        }

        private void NotifyDone(bool interrupted)
        {
            if (_done)
            {
                return;
            }
            _done = true;
            Collect();
            _brain?.RequestDecision(new AgentMessage(_number, true, interrupted, _reward, _sensors));
            _sensors.ForEach(sensor => sensor.Reset());
            _reward = 0f;
            _actionRequested = false;
            _decisionRequested = false;
        }

        private void Collect()
        {
            _sensors.ForEach(sensor => sensor.Update());
            using (_collecting.Start())
            {
                CollectObservations(_own);
            }
        }

        private void SendInfo()
        {
            if (!_decisionRequested)
            {
                return;
            }
            if (_brain != null)
            {
                Collect();
                _done = false;
                _brain.RequestDecision(new AgentMessage(_number, false, false, _reward, _sensors));
            }
            _reward = 0f;
            _decisionRequested = false;
        }

        /// <summary>Every agent does so in every step; without an action, zeros are stored (UpdateActions).</summary>
        private void DecideAction()
        {
            float[] decided = _brain?.DecideAction();
            Array.Clear(_stored, 0, _stored.Length);
            decided?.CopyTo(_stored, 0);
        }

        private void Act()
        {
            if (_actionRequested && _brain != null)
            {
                _actionRequested = false;
                OnActionReceived(new ActionBuffers(_stored));
            }
            if (MaxStep > 0 && StepCount >= MaxStep)
            {
                EpisodeInterrupted();
            }
        }

        private void IncrementStep()
        {
            StepCount++;
        }

        private void Restart()
        {
            Array.Clear(_stored, 0, _stored.Length);
            StepCount = 0;
            Begin();
        }

        private void Begin()
        {
            using (_beginning.Start())
            {
                OnEpisodeBegin();
            }
        }
    }
}
