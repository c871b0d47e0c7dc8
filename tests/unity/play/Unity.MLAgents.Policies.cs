using System;
using System.Linq;
using Unity.InferenceEngine;
using Unity.MLAgents.Actuators;
using UnityEngine;

namespace Unity.InferenceEngine
{
    /// <summary>A model, here a function.</summary>
    public sealed class ModelAsset : UnityEngine.Object
    {
        /// <summary>What it answers; null: the file cannot be loaded.</summary>
        internal Func<MLAgents.AgentMessage, float[]> Answer { get; set; }
    }
}

namespace Unity.MLAgents.Policies
{
    /// <summary>Who decides.</summary>
    public enum BehaviorType
    {
        /// <summary>The trainer; where there is none, the model; where there is none, the agent.</summary>
        Default = 0,

        /// <summary>The agent.</summary>
        HeuristicOnly = 1,

        /// <summary>The model.</summary>
        InferenceOnly = 2,
    }

    /// <summary>Sizes of observations and actions.</summary>
    public sealed class BrainParameters
    {
        /// <summary>Numbers of the sensor that CollectObservations fills.</summary>
        public int VectorObservationSize = 1;

        /// <summary>Observations that go together.</summary>
        public int NumStackedVectorObservations = 1;

        /// <summary>Actions.</summary>
        public ActionSpec ActionSpec { get; set; }
    }

    /// <summary>Says who decides for an agent, and by what name the trainer knows it.</summary>
    public class BehaviorParameters : MonoBehaviour
    {
        /// <summary>Team of self-play.</summary>
        public int TeamId;

        /// <summary>The trainer's name for it.</summary>
        public string BehaviorName { get; set; } = "My Behavior";

        /// <summary>Who decides.</summary>
        public BehaviorType BehaviorType { get; set; }

        /// <summary>Sensors of objects below are read.</summary>
        public bool UseChildSensors { get; set; } = true;

        /// <summary>Actuators of objects below act.</summary>
        public bool UseChildActuators { get; set; } = true;

        /// <summary>The model gives the mean instead of a sample.</summary>
        public bool DeterministicInference { get; set; }

        /// <summary>The model.</summary>
        public ModelAsset Model { get; set; }

        /// <summary>Sizes.</summary>
        public BrainParameters BrainParameters { get; } = new BrainParameters();

        /// <summary>Who decides, by the rules of ML-Agents' GeneratePolicy.</summary>
        /// <exception cref="UnityAgentsException">There is no model, or it cannot be loaded.</exception>
        internal IPolicy MakePolicy(Agent agent)
        {
            int actions = BrainParameters.ActionSpec.NumContinuousActions;
            Communicator trainer = Academy.Instance.Communicator;
            if (BehaviorType == BehaviorType.Default && trainer != null)
            {
                return new RemotePolicy(trainer);
            }
            bool hasModel = BehaviorType == BehaviorType.Default && Model != null;
            return hasModel || BehaviorType == BehaviorType.InferenceOnly
                ? (IPolicy)new ModelPolicy(Model, actions)
                : new HeuristicPolicy(agent, actions);
        }
    }

    /// <summary>Decides for one agent.</summary>
    internal interface IPolicy
    {
        void RequestDecision(AgentMessage message);

        /// <summary>One number for each action; null: none was decided.</summary>
        float[] DecideAction();
    }

    /// <summary>The trainer decides.</summary>
    internal sealed class RemotePolicy : IPolicy
    {
        private readonly Communicator _trainer;
        private int _number;

        public RemotePolicy(Communicator trainer)
        {
            _trainer = trainer;
        }

        public void RequestDecision(AgentMessage message)
        {
            _number = message.Number;
            _trainer.Put(message);
        }

        public float[] DecideAction()
        {
            _trainer.DecideBatch();
            return _trainer.ActionOf(_number);
        }
    }

    /// <summary>The agent decides: only when it was asked to, and not for an episode that has ended.</summary>
    internal sealed class HeuristicPolicy : IPolicy
    {
        private readonly Agent _agent;
        private readonly float[] _action;
        private bool _asked;

        public HeuristicPolicy(Agent agent, int actions)
        {
            _agent = agent;
            _action = new float[actions];
        }

        public void RequestDecision(AgentMessage message)
        {
            _asked = !message.Done;
        }

        public float[] DecideAction()
        {
            if (_asked)
            {
                Array.Clear(_action, 0, _action.Length);
                _agent.Heuristic(new ActionBuffers(_action));
            }
            _asked = false;
            return _action;
        }
    }

    /// <summary>A model decides. One of another shape throws when it decides, not when it is loaded.</summary>
    internal sealed class ModelPolicy : IPolicy
    {
        private readonly ModelAsset _model;
        private readonly int _actions;
        private AgentMessage _asked;
        private float[] _last;

        public ModelPolicy(ModelAsset model, int actions)
        {
            if (model == null || model.Answer == null)
            {
                throw new UnityAgentsException("Can't use Behavior Type InferenceOnly without a model that loads.");
            }
            _model = model;
            _actions = actions;
        }

        public void RequestDecision(AgentMessage message)
        {
            _asked = message.Done ? null : message;
        }

        public float[] DecideAction()
        {
            if (_asked != null)
            {
                float[] answer = _model.Answer(_asked);
                _asked = null;
                if (answer.Length != _actions)
                {
                    throw new UnityAgentsException("The model has another number of actions.");
                }
                _last = answer.ToArray();
            }
            return _last;
        }
    }
}
