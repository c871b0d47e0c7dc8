using System;
using System.Collections.Generic;
using System.Diagnostics;
using Tau.Core;
using Unity.MLAgents;
using Unity.MLAgents.Policies;
using UnityEngine;
#if TAU_SENTIS
using ModelAsset = Unity.Sentis.ModelAsset;
#else
using ModelAsset = Unity.InferenceEngine.ModelAsset;
#endif

namespace Tau
{
    /// <summary>
    /// Answers questions with a trained model: an agent that only infers is shown the question's embedding, and the
    /// answer nearest to its output is read out. One prompt a step of the academy, in the order they were asked.
    /// </summary>
    [AddComponentMenu("Tau/Tau Answerer")]
    [DisallowMultipleComponent]
    public sealed class TauAnswerer : MonoBehaviour
    {
        /// <summary>Where the model lies in a Resources folder, without its extension.</summary>
        public const string ModelResource = "Models/TauAgent";

        [SerializeField]
        [Tooltip("The trained model. Empty: Models/TauAgent in a Resources folder.")]
        private ModelAsset _model = null;

        [SerializeField]
        [Tooltip("The profile that the model was trained with: `tau3` or `tau384`.")]
        private string _profile = "tau3";

        [SerializeField]
        [Tooltip("A Tau JSON file with its vectors beside it. Empty: the one in StreamingAssets.")]
        private string _data = "";

        [SerializeField]
        [Tooltip("The model was trained with the sensor `target` beside the prompt; it is shown zeros there.")]
        private bool _targetSensor = false;

        private readonly Queue<AnswererJob> _jobs = new Queue<AnswererJob>();
        private readonly Stopwatch _watch = new Stopwatch();
        private TauTask _task;
        private QuestionMatcher _matcher;
        private TauAgent _agent;
        private Academy _academy;
        private AnswererJob _job;
        private float[] _prompt;
        private float[] _target;
        private bool _waiting;

        /// <summary>A question or an evaluation waits for its answer.</summary>
        public bool IsBusy => _job != null || _jobs.Count > 0;

        /// <summary>Takes data, profile and sensor from options, where they are given there.</summary>
        public void Configure(TauOptions options)
        {
            if (options == null)
            {
                throw new ArgumentNullException(nameof(options));
            }
            _data = options.Data ?? _data;
            _profile = options.Given("--tau-profile") ? options.Profile : _profile;
            _targetSensor = _targetSensor || options.TargetSensor;
            Leave(new TauException("The model did not answer before it was set up anew; ask again."));
            _task = null;
            _matcher = null;
        }

        /// <summary>Asks the model.</summary>
        /// <param name="question">One of the data set's questions; a similar one is taken for it, and named.</param>
        /// <param name="answered">Gets the answer, in one of the next steps of the game.</param>
        /// <param name="failed">Gets the mistake where the model does not answer.</param>
        /// <exception cref="TauException">There is no model, no data, or no question like this one.</exception>
        public void Ask(string question, Action<TauAnswer> answered, Action<TauException> failed)
        {
            Load();
            Enqueue(new QuestionJob(_task, question, _matcher.Find(question), answered, failed));
        }

        /// <summary>Shows the model every held-out row once.</summary>
        /// <param name="done">Gets the result, after as many steps of the game as there are rows.</param>
        /// <param name="failed">Gets the mistake where the model does not answer.</param>
        /// <returns>The running evaluation, which knows how far it is.</returns>
        /// <exception cref="TauException">There is no model, no data, or no held-out row.</exception>
        public HeldOutEvaluation Evaluate(Action<HeldOutEvaluation> done, Action<TauException> failed)
        {
            Load();
            var evaluation = new HeldOutEvaluation(_task);
            Enqueue(new EvaluationJob(evaluation, done, failed));
            return evaluation;
        }

        private void OnDestroy()
        {
            Leave(new TauException("The model did not answer before its scene was closed; ask again."));
        }

        private void Enqueue(AnswererJob job)
        {
            Join();
            _jobs.Enqueue(job);
        }

        private void Load()
        {
            if (_task == null)
            {
                FindModel();
                _task = new TauTask(TauData.Open(_data), TauProfile.Get(_profile));
                _matcher = new QuestionMatcher(_task.Dataset);
            }
        }

        private ModelAsset FindModel()
        {
            ModelAsset model = _model != null ? _model : Resources.Load<ModelAsset>(ModelResource);
            if (model == null)
            {
                throw new TauException(
                    "There is no trained model; train one and copy results/<run>/TauAgent.onnx to "
                    + "Assets/Tau/Resources/Models.");
            }
            return model;
        }

        /// <summary>Makes the agent, and lets it take part in the game.</summary>
        private void Join()
        {
            if (_agent != null)
            {
                return;
            }
            Unsubscribe(); // an agent that somebody destroyed has left its listener behind
            _agent = TauAgent.Create(null, "Tau Answerer Agent", _task.Profile, _targetSensor);
            var behavior = _agent.GetComponent<BehaviorParameters>();
            behavior.DeterministicInference = true;
            behavior.Model = FindModel();
            behavior.BehaviorType = BehaviorType.InferenceOnly;
            _agent.Connect(OnAnswer);
            _agent.Activate();
            _academy = Academy.Instance;
            _academy.AgentPreStep += OnStep;
        }

        private void Unsubscribe()
        {
            if (_academy != null && Academy.IsInitialized && Academy.Instance == _academy)
            {
                _academy.AgentPreStep -= OnStep;
            }
            _academy = null;
        }

        /// <summary>Takes the agent out of the game; whoever waits for an answer is told why none comes.</summary>
        private void Leave(TauException mistake)
        {
            var jobs = new List<AnswererJob>();
            if (_job != null)
            {
                jobs.Add(_job);
            }
            jobs.AddRange(_jobs);
            _jobs.Clear();
            _job = null;
            _waiting = false;
            Unsubscribe();
            if (_agent != null)
            {
                _agent.Deactivate();
                Destroy(_agent.gameObject);
            }
            _agent = null;
            foreach (AnswererJob job in jobs)
            {
                job.Fail(mistake);
            }
        }

        /// <summary>Before every step of the academy.</summary>
        private void OnStep(int step)
        {
            if (_waiting && _agent.IsDeciding)
            {
                Leave(NoAnswer());
            }
            else if (_waiting || FindPrompt())
            {
                Show();
            }
        }

        private void Show()
        {
            _waiting = true;
            _watch.Restart();
            try
            {
                _agent.RequestDecision(_prompt, _target);
            }
            catch (TauException mistake)
            {
                Leave(mistake);
            }
        }

        private bool FindPrompt()
        {
            while (_job != null || _jobs.Count > 0)
            {
                _job = _job ?? _jobs.Dequeue();
                if (_job.Next(out _prompt, out _target))
                {
                    return true;
                }
                _job = null;
            }
            return false;
        }

        private void OnAnswer(float[] output)
        {
            _waiting = false;
            AnswererJob job = _job;
            try
            {
                job.Take(output, _watch.Elapsed.TotalMilliseconds);
            }
            catch (TauException mistake)
            {
                _job = null;
                job.Fail(mistake);
            }
        }

        /// <summary>A whole step has gone by without an answer: there will be none, for any question.</summary>
        private TauException NoAnswer()
        {
            TauProfile profile = _task.Profile;
            return new TauException(FormattableString.Invariant(
                $"The model did not answer: it could not be loaded, or it does not fit profile {profile.Name} ")
                + FormattableString.Invariant(
                    $"({TauProfile.EmbeddingSize} observations, {profile.ActionSize} actions); the log says why. ")
                + "Name its profile with --tau-profile, or train another model.");
        }
    }
}
